//! gmsh files written by the tests: one description in every form of the format.

use std::io::Write;

use kernelwright::mesh::{Raw, Simplex};

/// Forms of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Binary,
    /// Binary with the other order of bytes.
    Swapped,
}

pub const FORMS: [Form; 3] = [Form::Text, Form::Binary, Form::Swapped];

struct Writer {
    out: Vec<u8>,
    form: Form,
}

impl Writer {
    fn line(&mut self, text: impl AsRef<str>) {
        self.out.extend_from_slice(text.as_ref().as_bytes());
        self.out.push(b'\n');
    }

    fn put<const N: usize>(&mut self, mut bytes: [u8; N], text: String) {
        match self.form {
            Form::Text => write!(self.out, "{text} ").unwrap(),
            Form::Binary => self.out.extend(bytes),
            Form::Swapped => {
                bytes.reverse();
                self.out.extend(bytes);
            }
        }
    }

    fn int(&mut self, value: i64) {
        self.put((value as i32).to_ne_bytes(), value.to_string());
    }

    fn size(&mut self, value: u64) {
        self.put(value.to_ne_bytes(), value.to_string());
    }

    fn real(&mut self, value: f64) {
        self.put(value.to_ne_bytes(), format!("{value:?}"));
    }

    fn end_line(&mut self) {
        if self.form == Form::Text {
            self.out.push(b'\n');
        }
    }

    fn begin(form: Form, version: &str, raw: &Raw) -> Writer {
        let mut writer = Writer { out: Vec::new(), form };
        writer.line("$MeshFormat");
        writer.line(format!("{version} {} 8", i32::from(form != Form::Text)));
        if form != Form::Text {
            writer.int(1);
            writer.line("");
        }
        writer.line("$EndMeshFormat");
        writer.line("$Comments\n$Nodes are no section here\n$EndComments");
        writer.line(format!("$PhysicalNames\n{}", raw.names.len()));
        for (dimension, tag, name) in &raw.names {
            writer.line(format!("{dimension} {tag} \"{name}\""));
        }
        writer.line("$EndPhysicalNames");
        writer
    }

    fn close(&mut self, section: &str) {
        self.end_line();
        if self.form != Form::Text {
            self.line("");
        }
        self.line(format!("$End{section}"));
    }
}

/// Version 2.2.
pub fn v2(raw: &Raw, form: Form) -> Vec<u8> {
    let mut writer = Writer::begin(form, "2.2", raw);
    writer.line(format!("$Nodes\n{}", raw.nodes.len()));
    for (tag, point) in &raw.nodes {
        writer.int(*tag as i64);
        point.iter().for_each(|x| writer.real(*x));
        writer.end_line();
    }
    writer.close("Nodes");
    writer.line(format!("$Elements\n{}", raw.tetrahedra.len() + raw.triangles.len() + 1));
    v2_run(&mut writer, 1, &[Simplex { tag: 900_000, group: 0, nodes: [raw.nodes[0].0, raw.nodes[1].0] }]);
    v2_run(&mut writer, 2, &raw.triangles);
    v2_run(&mut writer, 4, &raw.tetrahedra);
    writer.close("Elements");
    writer.line(format!("$Periodic\n{}", raw.links.len()));
    for link in &raw.links {
        writer.line(format!("2 7 8\nAffine{}\n{}", " 1".repeat(16), link.pairs.len()));
        link.pairs.iter().for_each(|(slave, master)| writer.line(format!("{slave} {master}")));
    }
    writer.line("$EndPeriodic");
    writer.out
}

fn v2_run<const N: usize>(writer: &mut Writer, kind: i64, elements: &[Simplex<N>]) {
    if writer.form != Form::Text && !elements.is_empty() {
        [kind, elements.len() as i64, 2].into_iter().for_each(|value| writer.int(value));
    }
    for element in elements {
        writer.int(element.tag as i64);
        if writer.form == Form::Text {
            writer.int(kind);
            writer.int(2);
        }
        writer.int(element.group);
        writer.int(element.group + 40);
        element.nodes.iter().for_each(|node| writer.int(*node as i64));
        writer.end_line();
    }
}

/// Version 4.1: one entity for each physical group.
pub fn v4(raw: &Raw, form: Form) -> Vec<u8> {
    let mut writer = Writer::begin(form, "4.1", raw);
    let groups = |dimension: u32| {
        let of = raw.names.iter().filter(move |(d, ..)| *d == dimension);
        of.map(|(_, tag, _)| *tag).collect::<Vec<i64>>()
    };
    let (surfaces, volumes) = (groups(2), groups(3));
    writer.line("$Entities");
    [1, 0, surfaces.len() as u64, volumes.len() as u64].into_iter().for_each(|count| writer.size(count));
    writer.end_line();
    writer.int(5);
    (0..3).for_each(|_| writer.real(0.0));
    writer.size(0);
    writer.end_line();
    for group in surfaces.iter().chain(&volumes) {
        writer.int(group + 100);
        (0..6).for_each(|_| writer.real(0.5));
        writer.size(1);
        writer.int(*group);
        writer.size(0);
        writer.end_line();
    }
    writer.close("Entities");
    writer.line("$Nodes");
    let last = raw.nodes.iter().map(|(tag, _)| *tag).max().unwrap();
    let half = raw.nodes.len() / 2;
    [2, raw.nodes.len() as u64, 1, last].into_iter().for_each(|value| writer.size(value));
    writer.end_line();
    v4_nodes(&mut writer, &raw.nodes[..half], 0);
    v4_nodes(&mut writer, &raw.nodes[half..], 1);
    writer.close("Nodes");
    writer.line("$Elements");
    let total = (raw.tetrahedra.len() + raw.triangles.len()) as u64;
    [(surfaces.len() + volumes.len()) as u64, total, 1, total].into_iter().for_each(|value| writer.size(value));
    writer.end_line();
    surfaces.iter().for_each(|group| v4_block(&mut writer, 2, 2, *group, &raw.triangles));
    volumes.iter().for_each(|group| v4_block(&mut writer, 3, 4, *group, &raw.tetrahedra));
    writer.close("Elements");
    writer.line("$Periodic");
    writer.size(raw.links.len() as u64);
    for link in &raw.links {
        [2, 7, 8].into_iter().for_each(|value| writer.int(value));
        writer.size(16);
        (0..16).for_each(|_| writer.real(1.0));
        writer.size(link.pairs.len() as u64);
        for (slave, master) in &link.pairs {
            writer.size(*slave);
            writer.size(*master);
        }
    }
    writer.close("Periodic");
    writer.out
}

fn v4_nodes(writer: &mut Writer, nodes: &[(u64, [f64; 3])], parametric: i64) {
    [2, 101, parametric].into_iter().for_each(|value| writer.int(value));
    writer.size(nodes.len() as u64);
    writer.end_line();
    for (tag, _) in nodes {
        writer.size(*tag);
        writer.end_line();
    }
    for (_, point) in nodes {
        point.iter().for_each(|x| writer.real(*x));
        (0..2 * parametric).for_each(|_| writer.real(0.25));
        writer.end_line();
    }
}

fn v4_block<const N: usize>(writer: &mut Writer, dimension: i64, kind: i64, group: i64, all: &[Simplex<N>]) {
    let elements: Vec<&Simplex<N>> = all.iter().filter(|element| element.group == group).collect();
    [dimension, group + 100, kind].into_iter().for_each(|value| writer.int(value));
    writer.size(elements.len() as u64);
    writer.end_line();
    for element in elements {
        writer.size(element.tag);
        element.nodes.iter().for_each(|node| writer.size(*node));
        writer.end_line();
    }
}
