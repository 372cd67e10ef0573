//! Keys of the kernel cache.

/// Version of the entries' format and of what a key covers; part of every key.
const FORMAT: &str = "1";

/// Identity of a compiled unit: a hash of all that decides its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    text: String,
}

impl Key {
    /// Name of the back end and the hash in hexadecimal; a file name.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Collects the parts of a key. Parts are labelled and carry their length, so that no two different lists of parts
/// hash alike.
#[derive(Debug, Clone)]
pub struct KeyBuilder {
    backend: &'static str,
    hasher: blake3::Hasher,
}

impl KeyBuilder {
    /// A key of a back end.
    pub fn new(backend: &'static str) -> KeyBuilder {
        KeyBuilder { backend, hasher: blake3::Hasher::new() }.part("format", FORMAT).part("backend", backend)
    }

    /// Adds a part.
    #[must_use]
    pub fn part(mut self, label: &str, value: impl AsRef<[u8]>) -> KeyBuilder {
        for bytes in [label.as_bytes(), value.as_ref()] {
            self.hasher.update(&(bytes.len() as u64).to_le_bytes());
            self.hasher.update(bytes);
        }
        self
    }

    /// Adds a list; its length counts, so that options cannot run into each other.
    #[must_use]
    pub fn list(self, label: &str, values: &[impl AsRef<[u8]>]) -> KeyBuilder {
        let counted = self.part(label, (values.len() as u64).to_le_bytes());
        values.iter().fold(counted, |key, value| key.part("", value))
    }

    /// The key.
    pub fn finish(self) -> Key {
        Key { text: format!("{}-{}", self.backend, self.hasher.finalize().to_hex()) }
    }
}
