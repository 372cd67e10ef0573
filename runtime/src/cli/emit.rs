//! `emit`: the generated source.

use serde_json::json;

use super::args::{CompileArgs, EmitArgs, TargetArg};
use super::failure::Failure;
use super::march;
use super::matrix::Place;
use super::out::Out;
use super::{choose_scheduled, source, systems};
use crate::march::{Extent, module};
use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::print;

pub(super) fn run(args: &EmitArgs, out: &mut Out) -> Result<u8, Failure> {
    let source = source(&args.compile.program, Place::Nowhere(args.target.into()))?;
    let kernels = match march::chosen(&source.loaded, args.compile.program.problem.as_deref())? {
        Some(run) => {
            systems::refuse_schedule(&args.compile)?;
            let CompileArgs { program, variant, .. } = &args.compile;
            let bound = systems::bind(&source.loaded, run, program, variant, Extent::OwnOrBox)?;
            module(&bound, args.target.into())?.kernels
        }
        None => {
            let builder = choose_scheduled(&source, &args.compile);
            let (_, problem) = builder.chosen()?;
            let planned = builder.plan()?;
            builder.module(&planned.plan().program, args.target.into(), &problem)?.kernels
        }
    };
    let kernels = wanted(kernels, args.kernel.as_deref())?;
    let source = match args.target {
        TargetArg::Cuda => print::cuda(&kernels),
        TargetArg::Host => print::c(&kernels),
    };
    out.line(source.trim_end())?;
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    out.object(&json!({ "kernels": names, "source": source }))?;
    Ok(0)
}

fn wanted(kernels: Vec<Kernel>, name: Option<&str>) -> Result<Vec<Kernel>, Failure> {
    let Some(name) = name else { return Ok(kernels) };
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let found: Vec<Kernel> = kernels.into_iter().filter(|kernel| kernel.name == name).collect();
    if found.is_empty() {
        return Err(Failure::Usage(format!("no kernel is called `{name}`; there are {}", names.join(", "))));
    }
    Ok(found)
}
