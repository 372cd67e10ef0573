//! `convert`: a matrix from one file format to another.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::args::ConvertArgs;
use super::failure::Failure;
use super::matrix::believe_columns;
use super::out::Out;
use crate::matrix::harwell_boeing::{self, Flavour};
use crate::matrix::{Matrix, Symmetry, file, matrix_market, npz};

pub(super) fn run(args: &ConvertArgs, out: &mut Out) -> Result<u8, Failure> {
    let target = Target::of(&args.to)?;
    let matrix = file::read(&args.from).map_err(Failure::Input)?;
    matrix.notes().iter().for_each(|note| eprintln!("note: {note}"));
    target.check(&args.from, &args.to, &matrix)?;
    let vectors = &matrix.vectors;
    let some = !(vectors.right_hand_sides.is_empty() && vectors.guesses.is_empty() && vectors.solutions.is_empty());
    if some && !matches!(target, Target::Boeing(Flavour::HarwellBoeing, _)) {
        eprintln!("note: the vectors of the file are left out, the matrix is converted");
    }
    save(&args.to, target, &matrix).map_err(|error| Failure::Input(format!("{}: {error}", args.to.display())))?;
    let (rows, columns, entries) = (matrix.csr.rows(), matrix.csr.columns(), matrix.csr.entries());
    out.line(format!("{}: {rows} x {columns}, {entries} entries", args.to.display()))?;
    out.object(&json!({
        "from": args.from.display().to_string(),
        "to": args.to.display().to_string(),
        "form": matrix.form,
        "rows": rows,
        "columns": columns,
        "entries": entries,
        "notes": matrix.notes(),
    }))?;
    Ok(0)
}

#[derive(Debug, Clone, Copy)]
enum Target {
    MatrixMarket,
    Compressed,
    Npz,
    /// With the type that the name promises, if it does.
    Boeing(Flavour, Option<&'static str>),
}

impl Target {
    fn of(path: &Path) -> Result<Target, Failure> {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let harwell = |kind| Target::Boeing(Flavour::HarwellBoeing, kind);
        let kinds = [
            (".mtx", Target::MatrixMarket),
            (".mtx.gz", Target::Compressed),
            (".npz", Target::Npz),
            (".hb", harwell(None)),
            (".rua", harwell(Some("RUA"))),
            (".rra", harwell(Some("RRA"))),
            (".rsa", harwell(Some("RSA"))),
            (".rza", harwell(Some("RZA"))),
            (".rb", Target::Boeing(Flavour::RutherfordBoeing, None)),
        ];
        let found = kinds.into_iter().find(|(end, _)| name.ends_with(end));
        let refuse = || {
            let known: Vec<&str> = kinds.iter().map(|(end, _)| *end).collect();
            Failure::Usage(format!("{}: it is none of {}, which can be written", path.display(), known.join(", ")))
        };
        found.map(|(_, target)| target).ok_or_else(refuse)
    }

    /// Whether the matrix can be written: of the Boeing formats, which store columns, only with believable ones, and of the
    /// type that the name promises.
    fn check(self, from: &Path, path: &Path, matrix: &Matrix) -> Result<(), Failure> {
        let Target::Boeing(_, promised) = self else { return Ok(()) };
        believe_columns(from, &matrix.csr)?;
        let Some(promised) = promised else { return Ok(()) };
        let kind = harwell_boeing::type_of(&matrix.csr, matrix.symmetry);
        // What is not symmetric by form is unsymmetric or rectangular; either name will do.
        if kind == promised || (matrix.symmetry == Symmetry::General && matches!(promised, "RUA" | "RRA")) {
            return Ok(());
        }
        let (name, end) = (path.display(), kind.to_ascii_lowercase());
        let text = format!("{name}: the matrix is of type {kind}, not {promised}; name the file .{end} or .hb");
        Err(Failure::Usage(text))
    }
}

/// Written aside and renamed: a failure leaves no half of a file, nor damages what was there.
fn save(path: &Path, target: Target, matrix: &Matrix) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kernelwright-");
    // Temporary files are for their owner only; this one becomes an ordinary file (the umask still applies).
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let aside = builder.tempfile_in(folder).map_err(|error| plain(folder, error))?;
    write(BufWriter::with_capacity(1 << 20, aside.as_file()), target, matrix)?;
    aside.persist(path).map(|_| ()).map_err(|error| error.error)
}

/// The reason without the name of the file that was to lie aside.
fn plain(folder: &Path, error: io::Error) -> io::Error {
    if folder.is_dir() {
        error.kind().into()
    } else {
        io::Error::other(format!("there is no folder {}", folder.display()))
    }
}

fn write(mut file: impl Write, target: Target, matrix: &Matrix) -> io::Result<()> {
    let comment: Vec<String> = matrix.title.iter().cloned().collect();
    match target {
        Target::MatrixMarket => matrix_market::write(file, &matrix.csr, matrix.symmetry, &comment),
        Target::Compressed => {
            let mut encoder = GzEncoder::new(&mut file, Compression::default());
            matrix_market::write(&mut encoder, &matrix.csr, matrix.symmetry, &comment)?;
            encoder.finish()?;
            file.flush()
        }
        Target::Npz => npz::write(file, &matrix.csr),
        Target::Boeing(flavour, _) => {
            let title = matrix.title.as_deref().unwrap_or_default();
            harwell_boeing::write(file, &matrix.csr, matrix.symmetry, title, &matrix.vectors, flavour)
        }
    }
}
