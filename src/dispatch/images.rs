//! Images in the form their client asked for: bytes become links here; links do not become bytes.

use std::time::Instant;

use actix_web::HttpRequest;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use pointsman_actors::{
    dialect::{
        Answer, AnswerContext, AnswerFault, ImageAnswer, ImageFormat, ImageOrigin, ImageRequest, ImageSource,
        rewrite_image_answer,
    },
    domain::Endpoint,
};

use crate::{clock, images::ImageFiles};

/// An image request, and where links of its answer point to.
pub struct ImageWork {
    /// The request.
    pub request: ImageRequest,
    base: String,
}

impl ImageWork {
    /// The work of `request`; links use the address the client called.
    #[must_use]
    pub fn new(request: ImageRequest, call: &HttpRequest) -> ImageWork {
        let connection = call.connection_info();
        let base = format!("{}://{}/api/v1/images/files/", connection.scheme(), connection.host());
        ImageWork { request, base }
    }

    /// The client's answer, made from an upstream one.
    ///
    /// # Errors
    /// When the upstream's answer is none, or has links where bytes were asked for.
    pub fn rewrite(
        &self,
        body: &Bytes,
        context: &AnswerContext,
        endpoint: &Endpoint,
        files: &ImageFiles,
    ) -> Result<Answer, AnswerFault> {
        let origin = if endpoint.images_through_chat { ImageOrigin::Chat } else { ImageOrigin::Images };
        let mut answer = rewrite_image_answer(body, origin, context)?;
        match self.request.format {
            ImageFormat::Base64 => require_bytes(&answer)?,
            ImageFormat::Url => self.link(&mut answer, files)?,
        }
        Ok(Answer { body: answer.body(), outcome: answer.outcome })
    }

    fn link(&self, answer: &mut ImageAnswer, files: &ImageFiles) -> Result<(), AnswerFault> {
        for image in &mut answer.images {
            let ImageSource::Base64 { data, .. } = &image.source else { continue };
            let bytes = BASE64_STANDARD.decode(data).map_err(|_| AnswerFault::malformed("broken base64"))?;
            let name = files
                .keep(bytes.into(), Instant::now())
                .ok_or_else(|| AnswerFault::malformed("an image larger than images.max_bytes"))?;
            let lifetime = i64::try_from(files.lifetime().as_secs()).unwrap_or(i64::MAX);
            let expires_at = Some((clock::unix_millis() / 1000).saturating_add(lifetime));
            image.source = ImageSource::Url { url: format!("{}{name}", self.base), expires_at };
        }
        Ok(())
    }
}

fn require_bytes(answer: &ImageAnswer) -> Result<(), AnswerFault> {
    let all = answer.images.iter().all(|image| matches!(image.source, ImageSource::Base64 { .. }));
    if all { Ok(()) } else { Err(AnswerFault::malformed("a link where the bytes of an image were asked for")) }
}
