//! A stream whose events are decoded and metered, and encoded anew unless they pass as they came.

use bytes::BytesMut;
use pointsman_domain::FinishReason;

use super::passing::PassingEvents;
use crate::{
    answer::{AnswerContext, AnswerResult},
    client_encoder::ClientEncoder,
    client_request::ClientRequest,
    frame::StreamEvent,
    neutral::{AnswerEvent, AnswerForm, AnswerSink as _, EscapedText, lone_halves_replaced},
    openai::{EventMeter, Metered, Progress, StreamOptions, one_line, utf8},
    outgoing::OutgoingBody,
    stream_error::StreamError,
    upstream_decoder::UpstreamDecoder,
};

#[derive(Debug)]
pub(super) struct DecodedStream {
    decoder: UpstreamDecoder,
    meter: EventMeter,
    /// Where events pass, it writes what the gateway itself says.
    encoder: ClientEncoder,
    passing: Option<PassingEvents>,
}

impl DecodedStream {
    pub(super) fn new(
        outgoing: Option<&OutgoingBody>,
        client: Option<&ClientRequest>,
        context: AnswerContext,
        options: StreamOptions,
    ) -> DecodedStream {
        let passing = outgoing.zip(client).filter(|(outgoing, _)| outgoing.is_clients_own);
        let translation = outgoing.and_then(|outgoing| outgoing.translation.as_ref());
        let names = outgoing.map(|outgoing| outgoing.names.clone()).unwrap_or_default();
        DecodedStream {
            decoder: UpstreamDecoder::new(translation),
            passing: passing.map(|(outgoing, client)| PassingEvents::new(client, outgoing, &context)),
            encoder: ClientEncoder::new(client, &context, options, AnswerForm::Streamed, options.max_event_bytes),
            meter: EventMeter::from_translation(translation, names, context),
        }
    }

    pub(super) const fn meter(&self) -> &EventMeter {
        &self.meter
    }

    pub(super) fn works_silently(&self) -> bool {
        self.decoder.works_silently()
    }

    /// Takes one event of the upstream and appends what the client gets for it.
    pub(super) fn event(
        &mut self,
        event: &StreamEvent<'_>,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> AnswerResult {
        if self.meter.answer().is_done() || (event.data.trim_ascii().is_empty() && !event.is_error) {
            return Ok(());
        }
        let (decoder, mut sink) = self.metered(progress);
        let mut taken = decoder.event(event, &mut sink);
        let is_done = taken.is_ok() && decoder.is_done();
        progress.content |= taken.is_ok() && (is_done || decoder.has_open_block());
        progress.event |= is_done;
        if is_done {
            taken = self.close(true);
        }
        match &mut self.passing {
            Some(passing) => taken.and_then(|()| passing.event(event, &self.meter, out)),
            None => {
                self.encoder.take(out);
                taken
            }
        }
    }

    /// Takes an answer that came whole in the place of a stream.
    pub(super) fn whole(&mut self, body: &[u8], out: &mut BytesMut) -> AnswerResult {
        self.passing = None;
        let decoder = std::mem::replace(&mut self.decoder, UpstreamDecoder::new(None));
        let body = one_line(body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body))?;
        let text = lone_halves_replaced(utf8(&body)?);
        decoder.whole(&text, &mut self.metered(&mut Progress::default()).1)?;
        // Without a finish it may have been cut off, as any stream.
        self.close(false)?;
        self.encoder.take(out);
        Ok(())
    }

    /// Takes the clean end of the stream.
    pub(super) fn end(&mut self, out: &mut BytesMut) -> AnswerResult {
        let mut progress = Progress::default();
        let (decoder, mut sink) = self.metered(&mut progress);
        let ended = decoder.end(&mut sink).and_then(|()| self.close(false));
        match &mut self.passing {
            Some(passing) => ended.map(|()| passing.end(&self.meter, out)),
            None => {
                self.encoder.take(out);
                ended
            }
        }
    }

    /// Ends the stream as one whose answers are at their limit of tokens.
    pub(super) fn cut_off(&mut self, answers: u32, out: &mut BytesMut) -> AnswerResult {
        if let Some(mut passing) = self.passing.take_if(|passing| !passing.ends_itself()) {
            passing.end_halves(&self.meter, out);
            // The meter has read the same halves.
            self.meter.end_texts(&mut None::<&mut ClientEncoder>)?;
            self.encoder.continue_at(passing.next_number());
        }
        for choice in 0..answers {
            let (finish, native) = (FinishReason::Length, EscapedText::plain(""));
            let mut progress = Progress::default();
            let (_, mut sink) = self.metered(&mut progress);
            sink.event(AnswerEvent::Finished { choice, finish, native })?;
        }
        self.close(false)?;
        match &mut self.passing {
            Some(passing) => passing.end(&self.meter, out),
            None => self.encoder.take(out),
        }
        Ok(())
    }

    /// Appends what tells the client that the answer is still being made.
    pub(super) fn keep_alive(&mut self, out: &mut BytesMut) {
        match &self.passing {
            Some(passing) => passing.keep_alive(out),
            None => {
                self.encoder.keep_alive();
                self.encoder.take(out);
            }
        }
    }

    /// Ends the stream with an error.
    pub(super) fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        if self.meter.answer().is_done() {
            return;
        }
        self.meter.fail(&mut self.passing.is_none().then_some(&mut self.encoder));
        if let Some(mut passing) = self.passing.take() {
            passing.end_halves(&self.meter, out);
            self.encoder.continue_at(passing.next_number());
        }
        self.encoder.fail(error, self.meter.answer());
        self.encoder.take(out);
    }

    /// The decoder, and its sink: the meter, and behind it the encoder unless events pass.
    fn metered<'s>(
        &'s mut self,
        progress: &'s mut Progress,
    ) -> (&'s mut UpstreamDecoder, Metered<'s, Option<&'s mut ClientEncoder>>) {
        let DecodedStream { decoder, meter, encoder, passing } = self;
        let sink = passing.is_none().then_some(encoder);
        (decoder, Metered { meter, progress, sink })
    }

    /// Ends the answer. `says_so`: the upstream says that it is whole.
    fn close(&mut self, says_so: bool) -> AnswerResult {
        let is_encoded = self.passing.is_none();
        self.meter.end(says_so, &mut is_encoded.then_some(&mut self.encoder))?;
        if is_encoded {
            self.encoder.finish(self.meter.answer());
        }
        Ok(())
    }
}
