//! `doctor` and the choice of a back end.

use kernelwright::backend::open::{Choice, open};
use kernelwright::backend::{Arithmetic, BackendError, Target};
use kernelwright::cache::Cache;
use kernelwright::doctor::{CacheFound, CompilerFound, DeviceFound, DriverFound, Found, Machine, NvrtcFound, Report};
use std::sync::Arc;

#[test]
fn the_report_says_what_is_there_and_is_data() {
    let report = Report::collect();
    let text = report.to_string();
    assert!(matches!(&report.compiler, Found::Here(compiler) if text.contains(&compiler.version)), "{text}");
    assert!(report.machine.cores >= 1 && report.backends.contains(&"host".to_owned()));
    let data = serde_json::to_value(&report).unwrap();
    assert_eq!(data["machine"]["cores"], report.machine.cores);
    assert!(data["driver"].get("here").is_some() || data["driver"]["missing"].is_string(), "{data}");
}

#[test]
fn absences_come_with_a_remedy_on_a_line_of_its_own() {
    let report = Report {
        version: "0.1.0".to_owned(),
        machine: Machine {
            system: "linux x86_64".to_owned(),
            processor: Some("A Processor".to_owned()),
            cores: 4,
            memory: Some(8 << 30),
        },
        compiler: Found::Missing("no C compiler: cc: not found; install gcc".to_owned()),
        nvrtc: Found::Here(NvrtcFound { version: "13.0".to_owned(), path: None, architectures: vec![80, 90] }),
        driver: Found::Here(DriverFound {
            version: "13.0".to_owned(),
            devices: vec![
                Found::Here(DeviceFound {
                    name: "A Card".to_owned(),
                    memory: 3 << 29,
                    capability: "9.0".to_owned(),
                    multiprocessors: 132,
                }),
                Found::Missing("CUDA_ERROR_DEVICE_UNAVAILABLE".to_owned()),
            ],
        }),
        cache: CacheFound {
            directory: Some("/home/me/kernels".into()),
            entries: 3,
            bytes: 1000,
            damaged: 1,
            trouble: None,
        },
        backends: vec!["cuda".to_owned(), "interp".to_owned()],
    };
    let expected = "\
kernelwright  0.1.0
machine       linux x86_64, 4 cores, 8.0 GiB
              A Processor
C compiler    not found: no C compiler: cc: not found
                to have it: install gcc
NVRTC         13.0, for sm_ 80 90
CUDA driver   CUDA 13.0
              cuda:0  A Card, 1.5 GiB, compute capability 9.0, 132 multiprocessors
              cuda:1  cannot be opened: CUDA_ERROR_DEVICE_UNAVAILABLE
kernel cache  /home/me/kernels
              3 units, 1000 bytes, 1 damaged
back ends     cuda, interp
";
    assert_eq!(report.to_string(), expected);
    let found = Found::Here(CompilerFound { version: "cc 1".to_owned(), path: Some("/usr/bin/cc".into()) });
    let text = Report { compiler: found, ..report }.to_string();
    assert!(text.contains("C compiler    cc 1\n              /usr/bin/cc\n"), "{text}");
}

#[test]
fn choices_are_read() {
    let read = |text: &str| text.parse::<Choice>();
    assert_eq!(read("auto"), Ok(Choice::Auto));
    assert_eq!(read("cuda"), Ok(Choice::Cuda(0)));
    assert_eq!(read("cuda:3"), Ok(Choice::Cuda(3)));
    assert_eq!(read("host"), Ok(Choice::Host));
    assert_eq!(read("interp"), Ok(Choice::Interp(Target::Host)));
    assert_eq!(read("interp:cuda"), Ok(Choice::Interp(Target::Cuda)));
    for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "host:1", "interp:host"] {
        assert!(read(wrong).unwrap_err().contains("interp:cuda"), "{wrong}");
    }
}

#[test]
fn the_best_back_end_that_is_there_is_opened() {
    let cache = Arc::new(Cache::none());
    let opened = open(Choice::Auto, Arithmetic::Strict, &cache).unwrap();
    let name = opened.backend.describe();
    match open(Choice::Cuda(0), Arithmetic::Strict, &cache) {
        Ok(cuda) => assert_eq!((cuda.backend.describe(), opened.notices.len()), (name, 0)),
        Err(BackendError::Unavailable(why)) => {
            assert!(name.starts_with("host"), "{name}");
            assert_eq!(opened.notices, [why]);
        }
        Err(error) => panic!("{error}"),
    }
    let interp = open(Choice::Interp(Target::Cuda), Arithmetic::Strict, &cache).unwrap().backend;
    assert_eq!((interp.target(), interp.small_problems_only()), (Target::Cuda, Some(1 << 20)));
}
