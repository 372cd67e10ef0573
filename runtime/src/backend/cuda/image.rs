//! Machine code of CUDA units: from the cache, else from NVRTC. Needs no device.

use super::nvrtc::{Compiled, Form, Nvrtc};
use crate::backend::build::Stop;
use crate::backend::units::{Built, Unit};
use crate::backend::{Arithmetic, BackendError};
use crate::cache::{Cache, Description, KeyBuilder};
use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::print;
use std::sync::Arc;

/// Bytes that a lane may spill under a bound on its registers (blocks that a multiprocessor should hold): a few pay on a
/// card, more cost what the bound gains.
pub const MOST_SPILLED: u32 = 128;

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
    /// The machine code of a unit of these kernels.
    pub(super) fn of(&self, unit: &Unit, kernels: &[Kernel], stop: &Stop) -> Result<Built, BackendError> {
        let options = self.options();
        let compiler = format!("NVRTC {}.{}", self.nvrtc.version.0, self.nvrtc.version.1);
        let key = KeyBuilder::new("cuda")
            .part("compiler", &compiler)
            .list("options", &options)
            .part("source", &unit.source.text)
            .part("spilled", MOST_SPILLED.to_string())
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
            let own: Vec<&Kernel> = unit.kernels.iter().map(|&number| &kernels[number]).collect();
            self.compile(&own, &unit.source.text, stop).map(|compiled| compiled.image)
        })?;
        Ok(Built { image, compiled })
    }

    /// Options of every compilation; the log tells what kernels use.
    pub(super) fn options(&self) -> Vec<String> {
        Nvrtc::options(self.architecture, self.form, self.arithmetic)
    }

    /// Compiles kernels with their source. How many registers a kernel takes differs between architectures: one that
    /// spills much under its bound is compiled without.
    pub(super) fn compile(&self, kernels: &[&Kernel], source: &str, stop: &Stop) -> Result<Compiled, BackendError> {
        let name = kernels.first().map_or("unit", |kernel| kernel.name.as_str());
        let compiled = self.nvrtc.compile(source, name, &self.options(), self.form, stop)?;
        let spills = |kernel: &Kernel| {
            let used = compiled.resources.iter().find(|used| used.kernel == kernel.name);
            used.is_some_and(|used| used.spill_stores.max(used.spill_loads) > MOST_SPILLED)
        };
        let bound = |kernel: &Kernel| kernel.resident_blocks.is_some() && spills(kernel);
        if !kernels.iter().any(|kernel| bound(kernel)) {
            return Ok(compiled);
        }
        let free = |kernel: &Kernel| Kernel { resident_blocks: None, ..kernel.clone() };
        let freed: Vec<Kernel> =
            kernels.iter().map(|kernel| if bound(kernel) { free(kernel) } else { (*kernel).clone() }).collect();
        self.nvrtc.compile(&print::cuda(&freed), name, &self.options(), self.form, stop)
    }
}
