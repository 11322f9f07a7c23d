//! The end of a certificate's validity.
//!
//! A minimal DER parser that reads only this field (RFC 5280, 4.1), because rustls does not expose it for the server's own
//! certificate.

use chrono::{DateTime, NaiveDateTime, Utc};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xA0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the certificate expires; `None` when the field is missing or has an unknown format.
pub(super) fn end(certificate: &[u8]) -> Option<DateTime<Utc>> {
    let signed = sequence(sequence(certificate)?)?;
    let version = element(signed)?;
    let mut rest = if version.tag == VERSION { version.rest } else { signed };
    // Skip serial number, algorithm and issuer.
    for _ in 0..3 {
        rest = element(rest)?.rest;
    }
    let not_before = element(sequence(rest)?)?;
    let not_after = element(not_before.rest)?;
    time(not_after.tag, not_after.content)
}

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

fn element(der: &[u8]) -> Option<Element<'_>> {
    let ([tag, length], rest) = der.split_first_chunk()?;
    let (length, rest) = match length {
        0..=0x7F => (usize::from(*length), rest),
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7F))?;
            let length = bytes.iter().try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add((*byte).into()));
            (length?, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag: *tag, content, rest })
}

fn sequence(der: &[u8]) -> Option<&[u8]> {
    element(der).filter(|element| element.tag == SEQUENCE).map(|element| element.content)
}

fn time(tag: u8, text: &[u8]) -> Option<DateTime<Utc>> {
    let text = std::str::from_utf8(text).ok()?;
    let whole = match tag {
        GENERALIZED_TIME => text.to_owned(),
        // Two-digit years from 50 are in the twentieth century.
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        _ => return None,
    };
    NaiveDateTime::parse_from_str(&whole, "%Y%m%d%H%M%SZ").ok().map(|time| time.and_utc())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn ending(year: i32) -> Vec<u8> {
        let mut certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        certificate.not_after = date_time_ymd(year, 3, 4);
        certificate.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_found_in_either_form_of_a_time() {
        for year in [1999, 2026, 2049, 2050, 4096] {
            let end = end(&ending(year)).unwrap();
            assert_eq!(end.to_rfc3339(), format!("{year}-03-04T00:00:00+00:00"));
        }
    }

    #[test]
    fn a_truncated_certificate_has_no_end_or_the_right_one() {
        let whole = ending(2030);
        let right = end(&whole);
        for length in 0..whole.len() {
            let found = end(whole.get(..length).unwrap());
            assert!(found.is_none() || found == right, "{length}");
        }
        assert_eq!(end(&[0x30, 0xFF, 1, 2, 3]), None);
        assert_eq!(end(&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF, 0]), None);
    }
}
