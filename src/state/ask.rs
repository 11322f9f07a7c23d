//! Questions to the control actors, which live on another thread and may be slow or gone.

use std::time::Duration;

use actix::{Actor, Addr, Handler, Message, dev::ToEnvelope};

use crate::base::error::{ApiError, Overload};

/// How long a control actor may take to answer a question.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);

/// Asks an actor, and waits no longer than half a second.
///
/// # Errors
/// 503 when it does not answer in time, or is gone.
pub async fn ask<A, Q>(actor: &Addr<A>, question: Q) -> Result<Q::Result, ApiError>
where
    A: Actor + Handler<Q>,
    A::Context: ToEnvelope<A, Q>,
    Q: Message + Send + 'static,
    Q::Result: Send,
{
    let answer = actor.send(question).timeout(ASK_TIMEOUT).await;
    answer.map_err(|_| ApiError::overloaded(Overload::SilentPart, ASK_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use actix::{ActorContext as _, AsyncContext as _, Context, WrapFuture as _};

    use super::*;

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Hello;

    enum Deaf {
        Busy,
        Gone,
    }

    impl Actor for Deaf {
        type Context = Context<Deaf>;

        fn started(&mut self, ctx: &mut Context<Deaf>) {
            match self {
                Deaf::Busy => ctx.wait(std::future::pending::<()>().into_actor(self)),
                Deaf::Gone => ctx.stop(),
            }
        }
    }

    impl Handler<Hello> for Deaf {
        type Result = ();

        fn handle(&mut self, _: Hello, _: &mut Context<Deaf>) {}
    }

    #[actix_web::test]
    async fn an_actor_that_is_silent_or_gone_is_a_503() {
        for actor in [Deaf::Busy, Deaf::Gone] {
            let error = ask(&actor.start(), Hello).await.unwrap_err();
            assert_eq!((error.status().as_u16(), error.reason()), (503, Some("overloaded")));
            assert_eq!(error.message(), "A part of the gateway did not answer in time.");
        }
    }
}
