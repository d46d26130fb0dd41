//! Keys that are read at the start only: another value waits for the next one, and the log says so.

use crate::config::Config;

/// Puts back what cannot change while the gateway runs, and names it.
pub(super) fn keep(before: &Config, wanted: &mut Config) -> Vec<&'static str> {
    let mut kept = Kept(Vec::new());
    let (old, new) = (&before.gateway, &mut wanted.gateway);
    // Sockets are bound, and their connections are served by what was known then.
    kept.hold("gateway.listen", &old.listen, &mut new.listen);
    kept.hold("gateway.admin_listen", &old.admin_listen, &mut new.admin_listen);
    kept.hold("gateway.trusted_proxies", &old.trusted_proxies, &mut new.trusted_proxies);
    kept.hold("gateway.max_connections", &old.max_connections, &mut new.max_connections);
    kept.hold("gateway.max_header", &old.max_header, &mut new.max_header);
    kept.hold("gateway.header_timeout", &old.header_timeout, &mut new.header_timeout);
    kept.hold("gateway.idle_timeout", &old.idle_timeout, &mut new.idle_timeout);
    kept.hold("gateway.keepalive_interval", &old.keepalive_interval, &mut new.keepalive_interval);
    // The files of [tls] are read again and again; which ones they are is not.
    kept.hold("tls", &before.tls, &mut wanted.tls);
    // Handles that clients hold are sealed with them, here and at other replicas: rotated by rolling restarts.
    kept.hold("gateway.keys", &old.keys, &mut new.keys);
    // The other replicas know where to find this one.
    kept.hold("cluster", &before.cluster, &mut wanted.cluster);
    kept.hold("gateway.state_dir", &old.state_dir, &mut new.state_dir);
    // What writes them is at work.
    let (old, new) = (&before.telemetry, &mut wanted.telemetry);
    kept.hold("telemetry.log_format", &old.log_format, &mut new.log_format);
    kept.hold("telemetry.otlp", &old.otlp, &mut new.otlp);
    kept.hold("telemetry.service_name", &old.service_name, &mut new.service_name);
    kept.0
}

struct Kept(Vec<&'static str>);

impl Kept {
    fn hold<T: PartialEq + Clone>(&mut self, key: &'static str, old: &T, new: &mut T) {
        if old != new {
            new.clone_from(old);
            self.0.push(key);
        }
    }
}
