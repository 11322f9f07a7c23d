//! The stylesheet and the script. Their paths contain a digest of their content, so browsers may keep them for ever.

use std::sync::LazyLock;

use actix_web::{HttpResponse, http::header, web};
use sha2::{Digest as _, Sha256};

use crate::base::error::ApiError;

const STYLE: &[u8] =
    concat!(include_str!("uplot/uplot.css"), include_str!("../api/page.css"), include_str!("console.css")).as_bytes();
const SCRIPT: &[u8] = include_bytes!("console.js");
/// uPlot 1.6.32 as published, and what uses it. The script loads it where there are charts.
const CHARTS: &[u8] = concat!(include_str!("uplot/uplot.js"), include_str!("plots.js")).as_bytes();
const ICON: &[u8] = include_bytes!("icon.svg");

/// First digits of the SHA-256 of all files.
pub(super) static HASH: LazyLock<String> = LazyLock::new(|| {
    let files = [STYLE, SCRIPT, CHARTS, ICON];
    let digest: [u8; 32] = files.into_iter().fold(Sha256::new(), Sha256::chain_update).finalize().into();
    hex::encode(digest).chars().take(12).collect()
});

/// Serves a file.
pub(super) async fn show(path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (hash, name) = path.into_inner();
    let (kind, content) = match name.as_str() {
        "console.css" => ("text/css; charset=utf-8", STYLE),
        "console.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "charts.js" => ("text/javascript; charset=utf-8", CHARTS),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return Err(ApiError::no_such("file")),
    };
    if hash != *HASH {
        return Err(ApiError::no_such("file"));
    }
    let keep = (header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    Ok(HttpResponse::Ok().content_type(kind).insert_header(keep).body(content))
}
