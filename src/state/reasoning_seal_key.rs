//! The key that seals reasoning for clients of another dialect: kept in the data directory, so that conversations go on after
//! a restart.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use pointsman_dialect::StateKey;

/// Name of the file: 32 bytes.
const FILE: &str = "state.key";

/// The key in `directory`, made if there is none. Without a directory, or if the file cannot be used, a key for this process
/// alone: conversations then lose their reasoning at a restart.
pub fn open(directory: Option<&Path>) -> StateKey {
    let stored = directory.map(|directory| read_or_make(&directory.join(FILE)));
    let key = stored.unwrap_or_else(|| Ok(rand::random())).unwrap_or_else(|error| {
        log::warn!("{FILE} in the data directory cannot be used ({error}); sealed reasoning is lost at a restart");
        rand::random()
    });
    StateKey::new(key)
}

fn read_or_make(path: &Path) -> io::Result<[u8; 32]> {
    match fs::read(path) {
        Ok(bytes) => {
            bytes.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not 32 bytes long"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key: [u8; 32] = rand::random();
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(&key)?;
            file.sync_all()?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}
