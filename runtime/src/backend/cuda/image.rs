//! Machine code of CUDA units: from the cache, else from NVRTC. Needs no device.

use super::nvrtc::{Form, Nvrtc};
use crate::backend::units::{Built, Unit};
use crate::backend::{Arithmetic, BackendError};
use crate::cache::{Cache, Description, KeyBuilder};
use std::sync::Arc;

/// What decides the machine code of a source.
#[derive(Debug, Clone)]
pub(super) struct Images {
    pub(super) nvrtc: &'static Nvrtc,
    pub(super) architecture: u32,
    pub(super) form: Form,
    pub(super) arithmetic: Arithmetic,
    pub(super) cache: Arc<Cache>,
}

impl Images {
    /// The machine code of a unit.
    pub(super) fn of(&self, unit: &Unit) -> Result<Built, BackendError> {
        let options = Nvrtc::options(self.architecture, self.form, self.arithmetic, false);
        let compiler = format!("NVRTC {}.{}", self.nvrtc.version.0, self.nvrtc.version.1);
        let key = KeyBuilder::new("cuda")
            .part("compiler", &compiler)
            .list("options", &options)
            .part("source", &unit.source.text)
            .finish();
        let about = Description {
            backend: "cuda".to_owned(),
            kernels: unit.names.clone(),
            compiler,
            architecture: format!("sm_{}", self.architecture),
            options: options.clone(),
            source_bytes: unit.source.text.len() as u64,
            ..Description::default()
        };
        let mut compiled = false;
        let image = self.cache.get_or_build(&key, about, || {
            compiled = true;
            self.nvrtc.compile(&unit.source.text, unit.name(), &options, self.form).map(|compiled| compiled.image)
        })?;
        Ok(Built { image, compiled })
    }
}
