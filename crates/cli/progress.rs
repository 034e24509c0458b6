//! Progress bars, for what takes longer than a second on a terminal.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use skillfreeze::manifest::Progress;

/// What takes less than this is not worth a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows the phases of a job one after the other.
pub(crate) struct Bar {
    enabled: bool,
    started: Instant,
    current: Mutex<Option<ProgressBar>>,
}

impl Bar {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, started: Instant::now(), current: Mutex::new(None) }
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &str, total: usize) {
        if !self.enabled {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {pos}/{len} packages");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_message(phase.to_owned());
        if let Ok(mut current) = self.current.lock()
            && let Some(before) = current.replace(bar)
        {
            before.finish_and_clear();
        }
    }

    fn advance(&self) {
        if !self.enabled {
            return;
        }
        if let Ok(current) = self.current.lock()
            && let Some(bar) = current.as_ref()
        {
            if bar.is_hidden() && self.started.elapsed() > PATIENCE {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            bar.inc(1);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Ok(mut current) = self.current.lock()
            && let Some(bar) = current.take()
        {
            bar.finish_and_clear();
        }
    }
}
