//! Metrics for others: a file for node_exporter, and a place that is scraped.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::machine::store::write_atomically;
use crate::machine::sys::scrape::Scraped;
use crate::model::telemetry::{Interval, Standing};
use crate::model::watch::{Exposure, Running};
use crate::report::metrics::Metrics;

/// Name of the file in the directory that node_exporter reads.
const FILE: &str = "linerate.prom";

/// Metrics, and where they can be had.
pub(super) struct Exposed {
    metrics: Metrics,
    file: Option<PathBuf>,
    scraped: Option<Scraped>,
    /// The file can't be written, and that was told.
    unwritten: bool,
}

impl Exposed {
    /// Opens what the owner wishes.
    ///
    /// # Errors
    /// Usage for a place that can't be listened at.
    pub(super) fn open(wishes: &Exposure) -> Result<Self> {
        let open = |place: &String| {
            Scraped::listen(place).map_err(|e| {
                Error::usage(format!("listen at {place}"), e)
                    .hint("127.0.0.1:PORT, [::1]:PORT or the path of a socket")
            })
        };
        let scraped = wishes.listen.as_ref().map(open).transpose()?;
        let file = wishes.textfile.as_ref().map(|dir| Path::new(dir).join(FILE));
        Ok(Self { metrics: Metrics::default(), file, scraped, unwritten: false })
    }

    /// True if anybody may read the metrics.
    pub(super) fn is_on(&self) -> bool {
        self.file.is_some() || self.scraped.is_some()
    }

    /// Takes a look's figures and writes the file; gives what to tell about that.
    pub(super) fn take(
        &mut self,
        interval: &Interval,
        standing: &Standing,
        running: &Running,
    ) -> Option<String> {
        if !self.is_on() {
            return None;
        }
        self.metrics.take(interval, standing, running);
        let file = self.file.as_ref()?;
        match write_atomically(file, self.metrics.text().as_bytes()) {
            Ok(()) => {
                self.unwritten = false;
                None
            }
            Err(_) if self.unwritten => None,
            Err(e) => {
                self.unwritten = true;
                Some(format!("metrics are not written to {}: {e}", file.display()))
            }
        }
    }

    /// The descriptor to wait for.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.scraped.as_ref().map(AsFd::as_fd)
    }

    /// Serves one who waits.
    pub(super) fn serve(&self) {
        if let Some(Err(e)) = self.scraped.as_ref().map(|at| at.serve(|| self.metrics.text())) {
            log::debug!("a scrape: {e}");
        }
    }
}
