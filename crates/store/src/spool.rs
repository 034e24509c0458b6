//! A spool: bytes that are written once and read once, in memory while they are few.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write};

use crate::atomic::Guard;
use crate::error::IoFault;

/// What is held in memory: nine in ten packages fit.
const MAX_MEMORY: usize = 4 << 20;

/// Bytes in memory up to 4 MiB, then in a temporary file without a name.
pub(crate) struct Spool<'a> {
    guard: &'a Guard,
    memory: Vec<u8>,
    file: Option<File>,
}

impl<'a> Spool<'a> {
    pub(crate) fn new(guard: &'a Guard) -> Self {
        Self { guard, memory: Vec::new(), file: None }
    }

    /// Turns to reading from the beginning.
    pub(crate) fn into_reader(self) -> io::Result<Box<dyn Read>> {
        match self.file {
            None => Ok(Box::new(io::Cursor::new(self.memory))),
            Some(mut file) => {
                file.rewind()?;
                Ok(Box::new(file))
            }
        }
    }
}

impl Write for Spool<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file {
            return file.write(bytes);
        }
        if self.memory.len() + bytes.len() > MAX_MEMORY {
            let mut file = self.guard.create_unnamed().map_err(|IoFault { source, .. }| source)?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            return self.file.insert(file).write(bytes);
        }
        self.memory.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
