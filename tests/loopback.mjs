// Preload (node --import): a listen() without a host binds 127.0.0.1 instead of every interface, and says on stderr where it is.
import net from 'node:net';

// The synchronous hook below listen(): programs read server.address() right after listen(0), which a host argument would delay.
const listen = net.Server.prototype._listen2;
net.Server.prototype._listen2 = function (address, port, addressType, backlog, fd, flags) {
  if (!address && typeof port === 'number' && port >= 0 && !(fd >= 0)) {
    address = '127.0.0.1';
    addressType = 4;
  }
  const result = listen.call(this, address, port, addressType, backlog, fd, flags);
  const bound = this.address();
  if (process.env.SAY_PORT && bound?.port) console.error(`bound http://127.0.0.1:${bound.port}`);
  return result;
};
