//! Requests to the control actors, which run on another thread and may be slow or stopped.

use std::time::Duration;

use actix::{Actor, Addr, Handler, Message, dev::ToEnvelope};

use crate::base::error::{ApiError, Overload};

/// Longest wait for the answer of a control actor.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);

/// Sends a message to an actor and waits for its answer, at most half a second.
///
/// # Errors
/// 503 when the actor does not answer in time or has stopped.
pub async fn ask<A, M>(actor: &Addr<A>, message: M) -> Result<M::Result, ApiError>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    let answer = actor.send(message).timeout(ASK_TIMEOUT).await;
    answer.map_err(|_| ApiError::overloaded(Overload::ActorSilent, ASK_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use actix::{ActorContext as _, AsyncContext as _, Context, WrapFuture as _};

    use super::*;

    #[derive(Message)]
    #[rtype(result = "()")]
    struct TestMessage;

    enum TestActor {
        Busy,
        Stopped,
    }

    impl Actor for TestActor {
        type Context = Context<TestActor>;

        fn started(&mut self, ctx: &mut Context<TestActor>) {
            match self {
                TestActor::Busy => ctx.wait(std::future::pending::<()>().into_actor(self)),
                TestActor::Stopped => ctx.stop(),
            }
        }
    }

    impl Handler<TestMessage> for TestActor {
        type Result = ();

        fn handle(&mut self, _: TestMessage, _: &mut Context<TestActor>) {}
    }

    #[actix_web::test]
    async fn an_actor_that_is_silent_or_gone_is_a_503() {
        for actor in [TestActor::Busy, TestActor::Stopped] {
            let error = ask(&actor.start(), TestMessage).await.unwrap_err();
            assert_eq!((error.status().as_u16(), error.reason()), (503, Some("overloaded")));
            assert_eq!(error.message(), "A part of the gateway did not answer in time.");
        }
    }
}
