//! Converts the images of an answer to the form that the client requested: bytes to links, or links to bytes.

use std::{borrow::Cow, time::Instant};

use actix_web::{HttpRequest, web};
use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode::Indifferent, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use bytes::Bytes;
use pointsman_base::clock;
use pointsman_dialect::{
    Answer, AnswerContext, AnswerFault, ImageAnswer, ImageFormat, ImageOrigin, ImageRequest, ImageSource,
    rewrite_image_answer,
};
use pointsman_transport::UpstreamError;

use crate::{
    access::load::{BufferLimitReached, BufferedBytes},
    proxy::dispatch::race::Target,
    state::{
        gateway::Worker,
        images::{self, ImageFiles},
    },
};

/// Most images of one answer that are fetched: the most that a request may ask for.
const MAX_FETCHED: usize = 10;

/// Base64 of more bytes than this runs on a blocking thread, because it would delay other requests of the worker.
const BLOCKING_BYTES: usize = 1024 * 1024;
const TOO_LARGE_TO_KEEP: &str = "The images are too large to be kept for links. Ask for base64, or the administrator of the \
     gateway can raise images.capacity.";

/// Accepts base64 with or without padding.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_padding_mode(Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// An image request, and the base address of the links in its answer.
pub struct ImageWork {
    /// The request.
    pub request: ImageRequest,
    base: String,
}

/// Limits for the images of one answer.
#[derive(Clone, Copy)]
pub struct ImageBounds<'a> {
    files: &'a ImageFiles,
    deadline: Instant,
    /// Most bytes of one image.
    one: usize,
    /// Most bytes of all images of the answer.
    all: usize,
}

impl<'a> ImageBounds<'a> {
    /// The configured limits, for a request that ends at `deadline`.
    pub fn new(worker: &'a Worker, deadline: Instant) -> ImageBounds<'a> {
        let one = worker.setup.config.images.max_image_bytes;
        let all = worker.setup.config.limits.upstream_body_bytes.max(one);
        ImageBounds { files: &worker.shared.process.images, deadline, one, all }
    }
}

/// The path prefix under which an application mounts the gateway.
fn mount_prefix(path: &str) -> &str {
    let mount = path.strip_suffix("/images/generations").or_else(|| path.strip_suffix("/images"));
    let prefix = mount.and_then(|mount| ["/api/v1", "/api", "/v1"].iter().find_map(|end| mount.strip_suffix(end)));
    prefix.unwrap_or_default()
}

impl ImageWork {
    /// Links in the answer use the address that the client called.
    pub fn new(request: ImageRequest, call: &HttpRequest) -> ImageWork {
        let connection = call.connection_info();
        let encrypted = Worker::of(call).is_some_and(|worker| worker.setup.config.tls.is_some());
        let scheme = if encrypted { "https" } else { connection.scheme() };
        let base = format!("{scheme}://{}{}/api/v1/images/files/", connection.host(), mount_prefix(call.path()));
        ImageWork { request, base }
    }

    /// Turns an upstream answer into the client's.
    ///
    /// # Errors
    /// When the upstream answer is invalid, or an image cannot be fetched. The inner error means that there is no room for
    /// the fetched bytes.
    pub(super) async fn rewrite(
        &self,
        body: &Bytes,
        context: &AnswerContext,
        target: &Target<'_>,
        bounds: ImageBounds<'_>,
        held: &mut BufferedBytes,
    ) -> Result<Result<Answer, BufferLimitReached>, UpstreamError> {
        let origin = if target.endpoint.images_through_chat { ImageOrigin::Chat } else { ImageOrigin::Images };
        let mut answer = rewrite_image_answer(body, origin, context)?;
        match self.request.format {
            ImageFormat::Base64 => {
                if let Err(full) = fetch(&mut answer, target, bounds, held).await? {
                    return Ok(Err(full));
                }
            }
            ImageFormat::Url => self.link(&mut answer, bounds.files).await?,
        }
        Ok(Ok(Answer { body: answer.body(), outcome: answer.outcome }))
    }

    /// Stores every image that came as bytes and replaces it by a link.
    async fn link(&self, answer: &mut ImageAnswer, files: &ImageFiles) -> Result<(), AnswerFault> {
        let mut bytes = Vec::with_capacity(answer.images.len());
        for image in &answer.images {
            if let ImageSource::Base64 { data, .. } = &image.source {
                let data = data.clone();
                bytes.push(offload(data.len(), move || decode(&data)).await??);
            }
        }
        let names = files.insert(bytes, Instant::now()).ok_or_else(|| AnswerFault::gateway_limit(TOO_LARGE_TO_KEEP))?;
        let lifetime = i64::try_from(files.lifetime().as_secs()).unwrap_or(i64::MAX);
        let expires_at = (clock::unix_millis() / 1000).saturating_add(lifetime);
        let kept = answer.images.iter_mut().filter(|image| matches!(image.source, ImageSource::Base64 { .. }));
        for (image, name) in kept.zip(names) {
            image.source = ImageSource::Url { url: format!("{}{name}", self.base), expires_at: Some(expires_at) };
        }
        Ok(())
    }
}

/// Replaces every link by the bytes behind it. One image at a time, because each may be large.
async fn fetch(
    answer: &mut ImageAnswer,
    from: &Target<'_>,
    bounds: ImageBounds<'_>,
    held: &mut BufferedBytes,
) -> Result<Result<(), BufferLimitReached>, UpstreamError> {
    let links = answer.images.iter().filter(|image| matches!(image.source, ImageSource::Url { .. })).count();
    if links > MAX_FETCHED {
        return Err(AnswerFault::malformed("more links to images than can be asked for").into());
    }
    let mut room = bounds.all;
    for image in &mut answer.images {
        let ImageSource::Url { url, .. } = &image.source else { continue };
        let bytes = from.client.fetch_image(url, bounds.deadline, bounds.one.min(room)).await?;
        room = room.saturating_sub(bytes.len());
        let media_type = images::media_type(&bytes).ok_or_else(|| AnswerFault::malformed("a link to no image"))?;
        // Base64 is a third larger than the image. An image counts only once it is fetched.
        if let Err(full) = held.grow_answer(bytes.len() / 3 * 4) {
            return Ok(Err(full));
        }
        let data = offload(bytes.len(), move || BASE64_STANDARD.encode(&bytes)).await?.into();
        image.source = ImageSource::Base64 { data, media_type: Cow::Borrowed(media_type) };
    }
    Ok(Ok(()))
}

/// Runs `work`, on a blocking thread if it handles more than [`BLOCKING_BYTES`].
async fn offload<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T, AnswerFault> {
    if bytes <= BLOCKING_BYTES {
        return Ok(work());
    }
    // Fails only if `work` panics or the server shuts down.
    web::block(work).await.map_err(|_| AnswerFault::malformed("the image could not be converted"))
}

fn decode(base64: &[u8]) -> Result<Bytes, AnswerFault> {
    let for_urls = base64.iter().any(|byte| matches!(byte, b'-' | b'_'));
    let decoded = if for_urls { FOR_URLS.decode(base64) } else { PLAIN.decode(base64) };
    decoded.map(Bytes::from).map_err(|_| AnswerFault::malformed("broken base64"))
}
