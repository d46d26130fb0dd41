//! A door in front of a server: refuses, stays silent, lets through, cuts, freezes, or leads elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::within;

/// What happens to who comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Connections are refused; open ones are reset.
    Refuse,
    /// Connections are accepted, nothing is ever said; open ones stay as they are.
    Silent,
    /// Bytes pass, to this address.
    Pass(SocketAddr),
    /// Open connections lose every byte from now on, in both directions, and nobody is told; new ones as well.
    Freeze,
}

/// A listening address whose behaviour can be changed.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    orders: mpsc::UnboundedSender<(Mode, oneshot::Sender<()>)>,
    accepted: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) async fn new(mode: Mode) -> Self {
        let (orders, receiver) = mpsc::unbounded_channel();
        let socket = bind("127.0.0.1:0".parse().unwrap());
        let address = socket.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        tokio::spawn(run(socket, address, receiver, Arc::clone(&accepted)));
        let gate = Self { address, orders, accepted };
        gate.set(mode).await;
        gate
    }

    /// The MCP address behind it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Behaves so from now on: returns when it does.
    pub(crate) async fn set(&self, mode: Mode) {
        let (done, told) = oneshot::channel();
        self.orders.send((mode, done)).unwrap();
        within("the gate to change", told).await.unwrap();
    }

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Bound and not listening: whoever connects is refused, and nobody else gets the port.
fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

/// The socket in either state.
enum Door {
    Shut(TcpSocket),
    Open(TcpListener),
}

async fn run(
    socket: TcpSocket,
    address: SocketAddr,
    mut orders: mpsc::UnboundedReceiver<(Mode, oneshot::Sender<()>)>,
    accepted: Arc<AtomicUsize>,
) {
    let mut door = Door::Shut(socket);
    let (mode, _) = watch::channel(Mode::Refuse);
    let mut connections = JoinSet::new();
    loop {
        let order = match &door {
            Door::Shut(_) => orders.recv().await,
            Door::Open(listener) => tokio::select! {
                order = orders.recv() => order,
                come = listener.accept() => {
                    accepted.fetch_add(1, Ordering::SeqCst);
                    connections.spawn(carry(come.unwrap().0, mode.subscribe()));
                    continue;
                }
            },
        };
        let Some((wanted, done)) = order else { return };
        mode.send_replace(wanted);
        door = match (door, wanted) {
            (Door::Open(listener), Mode::Refuse) => {
                connections.shutdown().await;
                drop(listener);
                Door::Shut(bind(address))
            }
            (Door::Shut(socket), mode) if mode != Mode::Refuse => Door::Open(socket.listen(1024).unwrap()),
            (door, _) => door,
        };
        let _ = done.send(());
    }
}

/// One connection: passes bytes while the mode says so.
async fn carry(mut near: TcpStream, mut mode: watch::Receiver<Mode>) {
    let to = *mode.borrow_and_update();
    let Mode::Pass(to) = to else {
        // Held open, never read.
        return std::future::pending().await;
    };
    let Ok(mut far) = TcpStream::connect(to).await else { return };
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = near.read(&mut up) => match read {
                Ok(length @ 1..) if far.write_all(&up[..length]).await.is_ok() => {}
                _ => return,
            },
            read = far.read(&mut down) => match read {
                Ok(length @ 1..) if near.write_all(&down[..length]).await.is_ok() => {}
                _ => return,
            },
            changed = mode.changed() => {
                let now = *mode.borrow_and_update();
                match now {
                    _ if changed.is_err() => return,
                    Mode::Pass(now) if now == to => {}
                    Mode::Freeze | Mode::Silent => return std::future::pending().await,
                    _ => return,
                }
            }
        }
    }
}

/// A server that says these bytes once to the first connection that asked something, then closes, and refuses
/// everything after.
pub(crate) async fn dies_after(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 1024];
        let _ = stream.read(&mut asked).await;
        let _ = stream.write_all(&answer).await;
        drop(stream);
        drop(listener);
        // The port stays ours, and refuses.
        let _kept = bind(address);
        std::future::pending::<()>().await;
    });
    address
}

/// An address where connections are neither accepted nor refused, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Hole {
    pub(crate) async fn new() -> Self {
        let socket = bind("127.0.0.1:0".parse().unwrap());
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        // Nobody accepts: once the queue is full, the kernel answers nothing.
        while let Ok(connected) = timeout(Duration::from_secs(1), TcpStream::connect(address)).await {
            queue.push(connected.unwrap());
            assert!(queue.len() < 100, "the queue fills");
        }
        Self { address, _listener: listener, _queue: queue }
    }
}
