//! The file of administrative changes on a disk that fails.

use std::sync::Arc;

use super::memory_disk::{Failing, MemoryDisk};
use crate::{
    accounts::{AccountLog, FILE},
    disk::Disk,
};

fn open(disk: &MemoryDisk) -> (AccountLog, Vec<String>) {
    let (log, stored) = AccountLog::open(Arc::new(disk.clone())).unwrap();
    let text = |change: Vec<u8>| String::from_utf8(change).unwrap();
    (log, stored.changes.into_iter().map(text).collect())
}

#[test]
fn a_change_cut_anywhere_is_cut_off_and_the_earlier_ones_stay() {
    let disk = MemoryDisk::new(1);
    let (log, _) = open(&disk);
    log.append(b"first").unwrap();
    log.append(b"second").unwrap();
    let whole = disk.read(FILE).unwrap();
    for length in 0..whole.len() {
        disk.replace(FILE, &whole[..length]).unwrap();
        let (log, found) = open(&disk);
        assert_eq!(found, if length < 15 { vec![] } else { vec!["first"] }, "{length}");
        log.append(b"x").unwrap();
        let (_, after) = open(&disk);
        assert_eq!((after.len(), after.last().map(String::as_str)), (found.len() + 1, Some("x")), "{length}");
    }
}

#[test]
fn damage_before_the_last_line_is_an_error_that_names_the_line() {
    let disk = MemoryDisk::new(2);
    let (log, _) = open(&disk);
    for change in ["first", "second", "third"] {
        log.append(change.as_bytes()).unwrap();
    }
    let mut bytes = disk.read(FILE).unwrap();
    bytes[26] ^= 1;
    disk.replace(FILE, &bytes).unwrap();
    let fault = AccountLog::open(Arc::new(disk)).err().unwrap().to_string();
    assert!(fault.contains("line 2 of \"accounts.log\""), "{fault}");
}

#[test]
fn whatever_operation_fails_an_acknowledged_change_survives_a_power_cut() {
    for seed in 0..40 {
        for failing in 0..12 {
            let disk = MemoryDisk::new(seed);
            disk.set_failing(Failing::One(failing));
            let mut acknowledged = Vec::new();
            if let Ok((log, _)) = AccountLog::open(Arc::new(disk.clone())) {
                for n in 0..4 {
                    let change = format!("change {n}");
                    if log.append(change.as_bytes()).is_ok() {
                        acknowledged.push(change);
                    }
                }
            }
            disk.set_failing(Failing::Nothing);
            let (_, found) = open(&disk.power_cut());
            let kept: Vec<_> = found.iter().filter(|change| acknowledged.contains(change)).cloned().collect();
            assert_eq!(kept, acknowledged, "seed {seed}, operation {failing}");
        }
    }
}
