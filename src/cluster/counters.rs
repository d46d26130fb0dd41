//! Counts of all replicas together: one GCRA for each key, in Redis, one round trip for each question.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::Cluster;
use super::link::Away;

/// Takes one and answers 0, or takes none and answers the microseconds until there is one. The clock is Redis's own:
/// those of replicas differ.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = time[1] * 1000000 + time[2]
         local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
         local due = tonumber(redis.call('GET', KEYS[1]) or now)
         if due < now then due = now end
         local wait = due - (burst - 1) * every - now
         if wait > 0 then return math.ceil(wait) end
         due = due + every
         redis.call('SET', KEYS[1], string.format('%.3f', due), 'PX', math.ceil((due - now) / 1000) + 1)
         return 0",
    )
});

impl Cluster {
    /// Takes one from a count that all replicas share: `every` so often one more may come, `burst` at once. What is
    /// left to wait, if there is none.
    ///
    /// # Errors
    ///
    /// Redis is away.
    pub async fn take(
        &self,
        (limit, key): (&str, &str),
        every: Duration,
        burst: u32,
    ) -> Result<Option<Duration>, Away> {
        let mut take = TAKE.prepare_invoke();
        take.key(format!("gatehouse:limit:{limit}:{key}"));
        take.arg(format!("{:.3}", every.as_secs_f64() * 1e6)).arg(burst);
        let wait = self.link.ask(async |mut redis| take.invoke_async::<u64>(&mut redis).await).await?;
        Ok((wait > 0).then(|| Duration::from_micros(wait)))
    }
}
