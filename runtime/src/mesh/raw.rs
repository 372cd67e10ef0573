//! A mesh as it was read: tags instead of numbers, nothing checked.

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Raw {
    /// Tags and coordinates of the nodes.
    pub nodes: Vec<(u64, [f64; 3])>,
    /// Elements.
    pub tetrahedra: Vec<Simplex<4>>,
    /// Triangles that carry boundary tags.
    pub triangles: Vec<Simplex<3>>,
    /// Names of physical groups: dimension, tag, name.
    pub names: Vec<(u32, i64, String)>,
    /// Periodic surfaces.
    pub links: Vec<Link>,
}

/// A tetrahedron or triangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simplex<const N: usize> {
    /// Tag in the file.
    pub tag: u64,
    /// Physical group, 0 for none.
    pub group: i64,
    /// Tags of its nodes.
    pub nodes: [u64; N],
}

/// Two periodic surfaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Names of the two surfaces, for messages.
    pub name: String,
    /// Tags of nodes on one surface with their partners on the other.
    pub pairs: Vec<(u64, u64)>,
}

impl Raw {
    /// The name of a group, or its number.
    pub fn group_name(&self, dimension: u32, group: i64) -> Option<String> {
        if group == 0 {
            return None;
        }
        let named = self.names.iter().find(|(of, tag, _)| *of == dimension && *tag == group);
        Some(named.map_or_else(|| group.to_string(), |(_, _, name)| name.clone()))
    }
}
