//! The host back end: compiler, cache, units.

use crate::backend_kernels::{axpy, dot, filled, neighbours, sample, values};
use kernelwright::backend::host::{HostBackend, HostOptions};
use kernelwright::backend::{Arithmetic, Backend, BackendError, Target};
use kernelwright::bandwidth::{self, Pattern};
use kernelwright::cache::Cache;
use kernelwright_codegen::kernel::Element;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn host(cache: Cache, compiler: Option<OsString>) -> Result<HostBackend, BackendError> {
    HostBackend::new(HostOptions { cache: Some(Arc::new(cache)), compiler, ..Default::default() })
}

/// Runs axpy with a factor and returns y.
fn run(backend: &mut HostBackend, factor: f64) -> Vec<f64> {
    let kernels = backend.compile(&[axpy(Target::Host, Element::F64, 100)]).unwrap();
    let x = filled(backend, Element::F64, &[1.0; 100]);
    let y = filled(backend, Element::F64, &[2.0; 100]);
    let alpha = filled(backend, Element::F64, &[factor]);
    backend.launch(kernels[0], &[x, y, alpha]).unwrap();
    values(backend, y, 100)
}

#[test]
fn a_source_is_compiled_once_whatever_the_parameters() {
    let place = tempfile::tempdir().unwrap();
    let mut first = host(Cache::at(place.path()), None).unwrap();
    assert_eq!(run(&mut first, 3.0), [5.0; 100]);
    assert_eq!(run(&mut first, 4.0), [6.0; 100]);
    let counted = first.counters();
    assert_eq!((counted.compiles, counted.cache_misses, counted.cache_hits), (1, 1, 1));
    let mut second = host(Cache::at(place.path()), None).unwrap();
    assert_eq!(run(&mut second, 5.0), [7.0; 100]);
    assert_eq!((second.counters().compiles, second.counters().cache_hits), (0, 1));
    let listed = Cache::at(place.path()).list().unwrap();
    let about = listed[0].state.as_ref().unwrap();
    assert_eq!((listed.len(), about.backend.as_str(), about.kernels.as_slice()), (1, "host", &["axpy".to_owned()][..]));
}

#[test]
fn rounding_and_compiler_options_are_part_of_the_key() {
    let place = tempfile::tempdir().unwrap();
    for (arithmetic, compiler) in [
        (Arithmetic::Contracted, None),
        (Arithmetic::Strict, None),
        (Arithmetic::Strict, Some(OsString::from("cc -g"))),
    ] {
        let cache = Some(Arc::new(Cache::at(place.path())));
        let mut backend = HostBackend::new(HostOptions { arithmetic, cache, compiler, threads: None }).unwrap();
        assert_eq!(run(&mut backend, 3.0), [5.0; 100]);
        assert_eq!(backend.counters().compiles, 1, "{arithmetic:?}");
    }
}

#[test]
fn a_damaged_unit_is_compiled_anew_with_a_notice() {
    let place = tempfile::tempdir().unwrap();
    run(&mut host(Cache::at(place.path()), None).unwrap(), 1.0);
    let file = fs::read_dir(place.path()).unwrap().next().unwrap().unwrap().path();
    let content = fs::read(&file).unwrap();
    fs::write(&file, &content[..content.len() / 2]).unwrap();
    let mut backend = host(Cache::at(place.path()), None).unwrap();
    assert_eq!(run(&mut backend, 3.0), [5.0; 100]);
    assert_eq!(backend.counters().compiles, 1);
    let notices = backend.notices();
    assert!(notices.len() == 1 && notices[0].contains("damaged"), "{notices:?}");
    assert_eq!(backend.notices(), [] as [&str; 0]);
}

#[test]
fn a_missing_compiler_is_said_with_what_helps() {
    match host(Cache::none(), Some("/nonexistent/cc".into())) {
        Err(BackendError::Unavailable(text)) => {
            assert!(text.contains("/nonexistent/cc") && text.contains("apt install gcc"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    // A program that is there and is no compiler.
    assert!(matches!(host(Cache::none(), Some("false".into())), Err(BackendError::Unavailable(_))));
}

/// The environment is a process's own: this test starts itself anew with another one.
#[test]
fn the_compiler_of_the_environment_is_used() {
    if std::env::var_os("KERNELWRIGHT_TEST_CC_CHILD").is_some() {
        let error = HostBackend::new(HostOptions::default()).unwrap_err();
        assert!(matches!(&error, BackendError::Unavailable(text) if text.contains("/nonexistent/compiler")), "{error}");
        let choice = "host".parse().unwrap();
        let cache = Arc::new(Cache::none());
        assert!(kernelwright::backend::open::open(choice, Arithmetic::Strict, &cache).is_err());
        let opened = kernelwright::backend::open::open("auto".parse().unwrap(), Arithmetic::Strict, &cache).unwrap();
        assert!(
            opened.notices.iter().any(|notice| notice.contains("/nonexistent/compiler")) || opened.notices.is_empty()
        );
        let report = kernelwright::doctor::Report::collect();
        assert!(report.to_string().contains("/nonexistent/compiler"), "{report}");
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend_host::the_compiler_of_the_environment_is_used"])
        .env("CC", "/nonexistent/compiler")
        .env("KERNELWRIGHT_TEST_CC_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// A stand-in for a compiler: a shell script that answers `--version` and then does what it is told.
#[cfg(unix)]
fn stand_in(place: &Path, body: &str) -> OsString {
    use std::os::unix::fs::PermissionsExt;
    let script = place.join("cc stand-in");
    let text = format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo stand-in 1.0; exit 0; fi\n{body}\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.into_os_string()
}

#[cfg(unix)]
#[test]
fn a_refused_source_is_our_bug_and_names_the_kernel() {
    let place = tempfile::tempdir().unwrap();
    let cache = place.path().join("cache");
    // Refuses the source at the statement that the second kernel is about, but compiles a probe.
    let refuse = "case \"$*\" in *probe.c*) exec cc \"$@\";; esac\n\
                  line=$(grep -n 'y = alpha' ./*.c | head -n 1 | sed 's/[^:]*:\\([0-9]*\\):.*/\\1/; t; s/:.*//')\n\
                  echo \"dot.c:$((line + 1)):7: error: not to my taste\" >&2; exit 1";
    let mut backend = host(Cache::at(&cache), Some(stand_in(place.path(), refuse))).unwrap();
    let kernels = [dot(Target::Host, Element::F64, 100), axpy(Target::Host, Element::F64, 100)];
    match backend.compile(&kernels) {
        Err(BackendError::Compile { language: "C", log }) => {
            assert!(log.starts_with("error in kernel axpy, computing `y = alpha*x + y`, line "), "{log}");
            assert!(log.contains("not to my taste"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!cache.exists(), "a failure is not kept");
}

#[cfg(unix)]
#[test]
fn a_compiler_that_cannot_link_is_unavailable() {
    let place = tempfile::tempdir().unwrap();
    let compiler = stand_in(place.path(), "echo 'ld: cannot find crti.o' >&2; exit 1");
    let mut backend = host(Cache::none(), Some(compiler)).unwrap();
    match backend.compile(&[axpy(Target::Host, Element::F64, 100)]) {
        Err(BackendError::Unavailable(text)) => assert!(text.contains("crti.o") && text.contains("apt"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn kernels_of_a_device_are_refused() {
    let mut backend = host(Cache::none(), None).unwrap();
    for kernel in [axpy(Target::Cuda, Element::F64, 100), neighbours(1)] {
        assert!(matches!(backend.compile(&[kernel]), Err(BackendError::Argument(_))));
    }
}

#[test]
fn too_much_memory_is_refused_with_its_size() {
    let mut backend = host(Cache::none(), None).unwrap();
    for len in [1 << 40, 1 << 58, u64::MAX] {
        match backend.allocate(Element::F64, len) {
            Err(BackendError::TooLarge(text)) => assert!(text.contains(&len.to_string()), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(backend.counters().buffers, 0);
}

#[test]
fn bandwidth_kernels_copy() {
    let mut backend = host(Cache::none(), None).unwrap();
    let n = 1 << 15;
    for (pattern, expected) in [(Pattern::Copy, 1.0), (Pattern::Triad, 4.0)] {
        let kernels = backend.compile(&[bandwidth::kernel(Target::Host, pattern, n as u64)]).unwrap();
        let a = sample(n, 9);
        let mut buffers: Vec<_> = (1..pattern.arrays()).map(|_| filled(&mut backend, Element::F64, &a)).collect();
        buffers.push(filled(&mut backend, Element::F64, &vec![f64::NAN; n]));
        backend.launch(kernels[0], &buffers).unwrap();
        let result = values(&mut backend, buffers[pattern.arrays() - 1], n);
        assert!(result.iter().zip(&a).all(|(&c, &a)| (c - expected * a).abs() < 1e-15), "{pattern:?}");
    }
    let measured = bandwidth::measure(&mut backend, Pattern::Copy, 8 << 20).unwrap();
    assert_eq!(measured.bytes, 8 << 20);
    assert!(measured.bytes_per_second > 1e7 && measured.seconds.len() == 11, "{measured:?}");
    assert_eq!(backend.counters().buffers, 5, "the measurement's buffers are gone");
}
