//! Choosing a back end.

use super::cuda::{CudaBackend, CudaOptions};
use super::host::{HostBackend, HostOptions};
use super::interp::{InterpBackend, InterpOptions};
use super::{Arithmetic, Backend, BackendError, Target};
use crate::cache::Cache;
use std::str::FromStr;
use std::sync::Arc;

/// Which back end is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The first of `cuda`, `host`, `interp` that is there.
    #[default]
    Auto,
    /// The CUDA device of this number.
    Cuda(usize),
    /// The host's cores.
    Host,
    /// The reference interpreter on kernels of a target.
    Interp(Target),
}

impl FromStr for Choice {
    type Err = String;

    /// `auto`, `cuda`, `cuda:1`, `host`, `interp` or `interp:cuda` (which checks CUDA kernels without a card).
    fn from_str(text: &str) -> Result<Choice, String> {
        let wrong = || format!("`{text}` is no back end; there are auto, cuda, cuda:N, host, interp and interp:cuda");
        match text.split_once(':') {
            Some(("cuda", number)) => number.parse().map(Choice::Cuda).map_err(|_| wrong()),
            Some(("interp", "cuda")) => Ok(Choice::Interp(Target::Cuda)),
            Some(_) => Err(wrong()),
            None => match text {
                "auto" => Ok(Choice::Auto),
                "cuda" => Ok(Choice::Cuda(0)),
                "host" => Ok(Choice::Host),
                "interp" => Ok(Choice::Interp(Target::Host)),
                _ => Err(wrong()),
            },
        }
    }
}

/// A back end and why it is not a better one.
pub struct Opened {
    /// The back end.
    pub backend: Box<dyn Backend>,
    /// Why better ones are not there; empty unless the choice was left to us.
    pub notices: Vec<String>,
}

/// Opens a back end. With [`Choice::Auto`] one that is not there is passed over with a notice; an error other than
/// that it is not there is an error all the same.
pub fn open(choice: Choice, arithmetic: Arithmetic, cache: &Arc<Cache>) -> Result<Opened, BackendError> {
    let order: &[Choice] = match choice {
        Choice::Auto => &[Choice::Cuda(0), Choice::Host, Choice::Interp(Target::Host)],
        _ => &[choice],
    };
    let mut notices = Vec::new();
    let mut last = BackendError::Unavailable("no back end".to_owned());
    for &one in order {
        match open_one(one, arithmetic, cache) {
            Ok(backend) => return Ok(Opened { backend, notices }),
            Err(BackendError::Unavailable(why)) => {
                notices.push(why.clone());
                last = BackendError::Unavailable(why);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn open_one(choice: Choice, arithmetic: Arithmetic, cache: &Arc<Cache>) -> Result<Box<dyn Backend>, BackendError> {
    let cache = Some(cache.clone());
    match choice {
        Choice::Cuda(device) => Ok(Box::new(CudaBackend::new(CudaOptions { device, arithmetic, cache })?)),
        Choice::Auto | Choice::Host => {
            Ok(Box::new(HostBackend::new(HostOptions { arithmetic, cache, ..HostOptions::default() })?))
        }
        Choice::Interp(target) => {
            Ok(Box::new(InterpBackend::new(InterpOptions { target, ..InterpOptions::default() })))
        }
    }
}
