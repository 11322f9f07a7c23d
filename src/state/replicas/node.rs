//! The name of this replica.

use std::io;

use pointsman_ledger::{directory::NODE_FILE, disk::Disk};

/// The name in the configuration, or the one that the data directory keeps. It is made at the first start.
///
/// # Errors
/// The disk refuses.
pub fn name(configured: Option<&str>, disk: Option<&dyn Disk>) -> io::Result<String> {
    let made = || format!("node-{}", hex::encode(rand::random::<[u8; 6]>()));
    let Some(disk) = disk.filter(|_| configured.is_none()) else {
        return Ok(configured.map_or_else(made, str::to_owned));
    };
    match disk.read(NODE_FILE).map(String::from_utf8) {
        Ok(Ok(name)) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let name = made();
    disk.replace(NODE_FILE, name.as_bytes())?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ledger::disk::SystemDisk;

    #[test]
    fn a_replica_keeps_its_name_over_a_restart() {
        let folder = std::env::temp_dir().join(format!("pointsman-node-{}", std::process::id()));
        pointsman_ledger::disk::make_folder(&folder).unwrap();
        let disk = SystemDisk::new(&folder);
        let first = name(None, Some(&disk)).unwrap();
        assert_eq!(name(None, Some(&disk)).unwrap(), first);
        assert_eq!(name(Some("blue"), Some(&disk)).unwrap(), "blue");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
