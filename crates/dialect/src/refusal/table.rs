//! What the refusals of providers are about: the table that all dialects, whole answers and streams use.
//!
//! The first row that matches decides. Rows of codes stand before rows of words, because a code is chosen by the provider
//! alone. Rows that close something ([`About::Account`], [`About::Quota`], [`About::Model`]) hold whole codes, or words that
//! the message begins with, and with which its sentence ends: what a provider quotes of a request does not begin a
//! sentence of its own, and what follows ("when using …") may be a condition of one request. `super::request` makes sure of
//! that for each refusal. Words are in lower case; `*` stands for any text, `{model}` for the
//! upstream name of the model, `''` for anything quoted. Each row names its sources, issues by the name of the
//! repository; `tests/it/fixtures/refusals.json` has a body for it, with the same.

use pointsman_domain::FailureKind;

use self::About::{Account, Content, Context, Fewer, Here, Model, OverLimit, Quota, TooLarge};

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The gateway's key or account, with the meaning of the words.
    Account(&'static str),
    /// The money or quota of the account, unless the provider says when it is there again.
    Quota(&'static str),
    /// The model at this provider, with the meaning of the words.
    Model(&'static str),
    /// This request at this provider: a file, store, feature or region that others may have.
    Here,
    /// The price of this request: fewer tokens would be affordable.
    Fewer,
    /// This request alone is larger than a limit of the account.
    OverLimit,
    /// The length of the prompt.
    Context,
    /// The size of the body.
    TooLarge,
    /// What the prompt or answer says.
    Content,
}

impl About {
    /// Whether it closes an endpoint or provider.
    pub(super) const fn closes(self) -> bool {
        matches!(self, Account(_) | Quota(_) | Model(_))
    }
}

/// How a refusal is recognised.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sign {
    /// One of these codes or types.
    Code(&'static [&'static str]),
    /// The message begins with, or follows, one of these. In a row that closes something, its sentence ends there, too.
    Words(&'static [&'static str]),
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub about: About,
    /// Statuses with which it counts; empty for any 4xx. An error within a 200 has the status that it names, if any.
    pub statuses: &'static [u16],
    pub sign: Sign,
}

/// `_source`: where the codes are documented or were seen, for readers of the table.
const fn code(about: About, codes: &'static [&'static str], _source: &'static str) -> Row {
    Row { about, statuses: &[], sign: Sign::Code(codes) }
}

const fn says(about: About, words: &'static [&'static str], _source: &'static str) -> Row {
    Row { about, statuses: &[], sign: Sign::Words(words) }
}

impl Row {
    const fn at(self, statuses: &'static [u16]) -> Row {
        Row { statuses, ..self }
    }
}

const BAD_KEY: &str = "the key is not valid";
const NO_MONEY: &str = "the account has no money or quota left";
const PLAN: &str = "the plan of the account is used up, or does not cover such calls";
const CLOSED: &str = "the account or organization is closed or restricted";
const REGION: &str = "the provider does not serve the region of this gateway";
const NOT_ALLOWED: &str = "the account may not make such calls";
const UNKNOWN_MODEL: &str = "the model is unknown there, or not open to the account";
const RETIRED: &str = "the model is retired";
const NO_ACCESS: &str = "the model is not open to the account";

/// The table.
#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    // Codes.
    code(Account(BAD_KEY), &["invalid_api_key", "wrong_api_key", "invalidapikey", "api_key_invalid", "account_deactivated"],
        "GPT_API_free#62 (OpenAI); NextChat#4175 (account_deactivated); continue#10290 (Gemini); DashScope error codes; no thread for wrong_api_key (Cerebras)"),
    code(Account(BAD_KEY), &["authentication_error", "invalid_authentication_error", "unauthenticated"],
        "ai_automation_suggester#153 (Anthropic); ironclaw#1047 (DeepSeek); Moonshot error codes; Google status").at(&[401]),
    code(Account(BAD_KEY), &["unrecognizedclientexception", "expiredtokenexception", "invalidsignatureexception", "incompletesignature",
        "missingauthenticationtokenexception", "missingauthenticationtoken", "invalidclienttokenid"],
        "vercel/ai#4163; docs.aws.amazon.com/bedrock API reference, common errors"),
    code(Account(BAD_KEY), &["api_key_service_blocked", "api_key_http_referrer_blocked", "api_key_ip_address_blocked", "access_token_expired",
        "access_token_scope_insufficient", "credentials_missing", "service_disabled", "consumer_invalid"],
        "cloud.google.com/apis/design/errors, google.api.ErrorReason"),
    code(Account(CLOSED), &["consumer_suspended", "organization_restricted", "account_suspended", "account_state_invalid"],
        "google/generative-ai-docs#356, google.api.ErrorReason; crewAI#783 (Groq)"),
    code(Account(PLAN), &["access_terminated_error"], "openclaw#142656 and kimi-code#636 (Kimi for coding)"),
    code(Account(NO_MONEY), &["billing_hard_limit_reached", "billing_not_active", "billing_disabled", "billing_error", "arrearage",
        "insufficient_balance_error", "exceeded_current_quota_error", "enforced_spend_limit_reached", "contract_spend_limit_reached",
        "organization_spend_limit_exceeded", "project_spend_limit_exceeded"],
        "OpenAI error codes and spend limits; google.api.ErrorReason; Anthropic errors and rate limits; TradingAgents-CN#170 (DashScope); modelscope#1691 (MiniMax); BettaFish#524 (Moonshot)"),
    code(Account(BAD_KEY), &["expired_key", "token_not_found_in_db"], "litellm: proxy/_types.py, ProxyErrorTypes"),
    // With a 429 it is the type of any rate limit there: MoA#27.
    code(Account(NO_MONEY), &["credit_limit"], "edsl#2098 (Together)").at(&[402]),
    code(Quota(NO_MONEY), &["insufficient_quota"], "gpt-pilot#340 (OpenAI); no thread for Perplexity"),
    code(Account(NO_MONEY), &["1113", "1309"], "claude-code-router#1071; docs.bigmodel.cn/cn/api/api-code").at(&[400, 401, 402, 403, 429]),
    code(Account(BAD_KEY), &["1000", "1001", "1002", "1003", "1004"], "docs.bigmodel.cn/cn/api/api-code").at(&[401]),
    code(Account(CLOSED), &["1110", "1111", "1112", "1121"], "docs.bigmodel.cn/cn/api/api-code").at(&[401, 403, 429]),
    code(Account(NO_MONEY), &["minimax.1008"], "obsidian-aloud-tts#114 (MiniMax: with a 200)"),
    code(Account(BAD_KEY), &["minimax.1004", "minimax.2049"], "platform.minimax.io, error codes"),
    code(Quota(PLAN), &["minimax.2056"], "platform.minimax.io, error codes"),
    code(Account(REGION), &["unsupported_country_region_territory"], "home-assistant/core#120072 (OpenAI)"),
    code(Model(UNKNOWN_MODEL), &["model_not_found", "deploymentnotfound", "invalid_model", "model_not_available", "model_not_supported", "unknown_model",
        "dedicated_endpoint_not_running", "modelnotfound", "model.accessdenied", "unknownoperationexception"],
        "openai-agents-python#458, cursor#2953 (OpenAI); AgentVerse#140 (Azure); langchaingo#1233 (Mistral); litellm#908 (Perplexity); puter#3168 (Together); DashScope error codes; no thread for the others"),
    code(Model(RETIRED), &["model_decommissioned"], "sqlmap-ai#3 (Groq)"),
    code(Model(NO_ACCESS), &["model_terms_required", "model_permission_blocked_org", "model_permission_blocked_project",
        "accessdenied.unpurchased", "allocationquota.freetieronly"], "BettaFish#609 and error codes of DashScope; no thread for Groq"),
    code(Model(NO_ACCESS), &["key_model_access_denied", "team_model_access_denied", "user_model_access_denied", "org_model_access_denied"],
        "opcode#358 (litellm)"),
    code(Model(NO_ACCESS), &["minimax.2061"], "platform.minimax.io, error codes"),
    code(Model(UNKNOWN_MODEL), &["1211", "1311"], "wallbreaker#20; docs.bigmodel.cn/cn/api/api-code").at(&[400, 403, 404, 429]),
    code(Context, &["*context_length*", "*context_window*", "contextwindowexceeded*", "exceed_context_size*", "model_max_prompt_tokens_exceeded",
        "prompt_too_long", "1261"], "OpenAI error codes; llama.cpp#15780; docs.bigmodel.cn/cn/api/api-code; no thread for the others"),
    code(OverLimit, &["tokens_limit_reached"], "eslint/tsc-meetings#593 (GitHub Models)"),
    code(Content, &["*content_filter*", "*content_policy*", "moderation_blocked*", "responsibleaipolicyviolation", "metadata.reasons",
        "data_inspection_failed", "datainspectionfailed", "sensitive_content*", "1301"],
        "ZJT#480 (OpenAI images); TinyTroupe#85 (Azure); openrouter.ai/docs/errors; camel-ai/owl#432 (DashScope); docs.bigmodel.cn/cn/api/api-code"),
    code(Content, &["minimax.1026", "minimax.1027"], "platform.minimax.io, error codes"),
    code(Content, &["cyber_policy", "bio_policy"], "no thread: failed responses of OpenAI"),
    code(Here, &["http_error", "external_connector_error", "vector_store_timeout", "mcp_error", "tool_user_error", "unsupported_file", "unknown_url"],
        "no thread: failed responses of OpenAI, about what a tool of the client met; Groq (unknown_url)"),
    code(Here, &["previous_response_not_found", "conversation_locked", "operationnotsupported"], "bifrost#2441 (OpenAI); no thread for the others"),
    code(Here, &["resource_unavailable", "capacity_exceeded"], "console.groq.com/docs/flex-processing; no thread for OpenAI, which documents the 429").at(&[429, 498]),

    // Words about the account.
    says(Account(BAD_KEY), &["incorrect api key provided", "incorrect api key provided: *. you can *", "invalid api key$", "invalid x-api-key", "api key not valid", "api key expired", "api key not found",
        "your api key was reported as leaked", "invalid api token", "no api key supplied", "authentication fails", "authentication fails, your api key*", "no auth credentials found",
        "no cookie auth credentials found", "access denied due to invalid subscription key or wrong api endpoint", "unauthorized. access token is missing, invalid, audience is incorrect*",
        "you didn't provide an api key", "invalid bearer token", "invalid username or password$"],
        "beeai-framework#447 (xAI, 400); cohere-toolkit#857; claude-code-launcher#3 (DeepSeek); continue#11541 (Gemini); openclaude#967 (OpenRouter); BotSharp#386 (Azure); coreply#19 (Hugging Face)"),
    says(Account(BAD_KEY), &["user not found"], "agenticSeek#407 (OpenRouter: a deleted key)").at(&[401]),
    says(Account(BAD_KEY), &["authentication failed: please make sure your api key is valid", "the security token included in the request is expired", "the security token included in the request is invalid",
        "signature expired", "signature not yet current", "the request signature we calculated does not match the signature you provided", "bearer token has expired", "api key has expired"],
        "opencode#47073 and vercel/ai#4163 (Bedrock); no thread for the last two"),
    says(Account(CLOSED), &["this organization has been disabled", "your organization has been disabled", "organization has been restricted",
        "the organization has been disabled", "your account is not active", "your account is not active, please check your billing details*", "account * is suspended", "account * is suspended, possibly due to*", "your account * is suspended", "your account * is suspended due to insufficient balance*",
        "your account has been deactivated", "your openai account has been deactivated", "this key is associated with a deactivated account", "the openai account associated with this api key has been deactivated",
        "your project has been denied access", "you must be a member of an organization to use the api", "your access was terminated*"],
        "claude-code#19028; crewAI#783 (Groq); pollinations#12136 (Fireworks 412); one-api#271 (OpenAI); gemini-api#8; BettaFish#524 (Moonshot)"),
    says(Account(NO_MONEY), &["your credit balance is too low", "your credit balance is too low to access the anthropic api", "your credit balance is too low to access the claude api",
        "you have reached your specified*usage limits", "insufficient balance", "insufficient balance or no resource package", "insufficient credits",
        "credit limit exceeded", "key limit exceeded", "key limit exceeded (* limit)", "billing hard limit has been reached", "your prepayment credits are depleted",
        "this api method requires billing to be enabled", "you have exceeded your monthly included credits", "you have exceeded your monthly included credits for inference providers",
        "inference prohibited, please enter a payment method*",
        "your newly created team doesn't have any credits*", "your team * has either used all available credits or reached its monthly spending limit", "access denied, please make sure your account is in good standing",
        "you need positive balance", "gemini api free tier is not available in your country"],
        "claude-code#66314 and #38035 (Anthropic); MaxKB#3797 (DeepSeek); open-assistant#80, inspector#1287 (OpenRouter); edsl#2098 (Together); aiwallpaper#2 (OpenAI); dyad#3626, ai.google.dev troubleshooting (Gemini); agents-course#386 (Hugging Face); no-cost-ai#24 (DeepInfra); warp#14863, xai_conversation#7 (xAI); MaxKB#5297 (DashScope)"),
    // The code, `budget_exceeded`, is also that of a budget of the client's own user or tag.
    says(Account(NO_MONEY), &["budget has been exceeded! current cost: *", "budget has been exceeded! key=*", "budget has been exceeded! team=*",
        "exceededbudget: user=*", "exceededbudget: team=*"], "litellm: proxy/auth/auth_checks.py, exceptions.py"),
    says(Account(PLAN), &["you've reached your usage limit for this billing cycle", "you've reached your * usage limit"],
        "cc-haha#1208, openclaw#142656 (Kimi for coding)").at(&[402, 403]),
    says(Account(NO_MONEY), &["insufficient balance"], "MiniMax-M2#62 (500 in the form of Messages)").at(&[500]),
    says(Account(REGION), &["user location is not supported for the api use", "country, region, or territory not supported"],
        "poenl/gemini-api#4; home-assistant/core#120072 (OpenAI)"),
    says(Account(NOT_ALLOWED), &["oauth authentication is currently not allowed for this organization", "your account is not authorized to invoke this api operation",
        "this api key is not authorized"], "claude-code#6590 (Anthropic); amazon-bedrock-workshop#100; no thread for the last one"),

    // Words about the model.
    says(Model(UNKNOWN_MODEL), &["the model {model} does not exist", "the model {model} does not exist or you*", "model {model} does not exist", "the model {model} was not found", "model {model} not found", "model {model} not found, make sure the correct model id was used*", "model {model} not found, try pulling it first",
        "the requested model {model} does not exist", "model: {model}$", "model not exist", "model does not exist", "invalid model: {model}", "invalid model {model}", "invalid model$",
        "{model} is not a valid model id", "no endpoints found for {model}", "model {model} is not found", "models/{model} is not found for api version *",
        "model not found, inaccessible, and/or not deployed", "not found the model {model} or permission denied", "unable to access model {model}", "unable to access non-serverless model {model}",
        "unknown model", "unknown model, please check the model code", "the model {model} is not available", "the requested model {model} is not supported", "the requested model {model} is not supported by any provider you have enabled", "the model {model} is not supported",
        "publisher model {model} was not found or your project does not have access to it", "publisher model '' was not found or your project does not have access to it", "no such model", "model not found",
        "not found the model or permission denied", "no endpoints found for this model", "the requested model is not supported", "model not supported by provider *",
        "the dedicated endpoint for {model} is not running", "modelcode: does not exist", "[1214][modelcode: does not exist]", "function '': not found for account ''"],
        "vllm#3485; QAnything#555 (Ollama); BERTopic#1864 (Cohere); docs.x.ai; mattermost-plugin-agents#257 (Anthropic); easy-dataset#9 (DeepSeek); langchaingo#1233 (Mistral); litellm#908 (Perplexity); chatbox#2743, ragflow#2359, openrouter-examples#74 (OpenRouter); gnome-gemini-ai#22; warp#15107 (Fireworks); any-llm#778, Langchain-Chatchat#3767 (Moonshot); puter#3168 (Together); cline#6099, codex-router#244, goose#11667 (GLM); genkit#4688 (Vertex); cline#5098, huggingface.js#2225 (Hugging Face); 9router#470 (Copilot); freellmapi#634 (NVIDIA)"),
    says(Model(UNKNOWN_MODEL), &["the api deployment for this resource does not exist", "the provided model identifier is invalid", "invocation of model id {model} with on-demand throughput isn't supported",
        "could not resolve the foundation model from the provided model identifier", "the model * is not supported on this route", "model is not supported on this route"],
        "AgentVerse#140 (Azure); AionCore#377, obsidian-copilot#2472 (Bedrock); no thread for the routes"),
    says(Model(RETIRED), &["the model {model} has been decommissioned", "the model {model} has been decommissioned and is no longer supported", "the model {model} has been deprecated", "this model version has reached the end of its life",
        "access denied. this model is marked by provider as legacy and you have not been actively using the model*", "this model models/{model} is no longer available", "this model models/{model} is no longer available to new users",
        "this model {model} is no longer available", "this model {model} is no longer available to new users",
        "the model {model} has reached its end of life", "the model {model} has reached its end of life on *"],
        "sqlmap-ai#3 (Groq); llmeter#35, accelerated-intelligent-document-processing-on-aws#708 (Bedrock); freellmapi#634 (NVIDIA 410); no thread for Gemini"),
    says(Model(NO_ACCESS), &["project '' does not have access to model {model}", "you do not have access to the model {model}", "you don't have access to the model with the specified model id",
        "your organization must be verified to use the model {model}", "model access is denied", "model access is denied due to*", "user: * is not authorized to perform: bedrock:invokemodel on resource: *",
        "this api key is not authorized to use model {model}",
        "project * is not allowed to use publisher model {model}", "permission '' denied on resource {model}", "permission '' denied on resource {model} (or it may not exist)",
        "imagen api is only accessible to billed users at this time", "author * is banned", "the free tier of the model has been exhausted", "this model is not available for your account",
        "you are not allowed to sample from this model", "operation not allowed$"],
        "cursor#2953, LibreChat#7323 (OpenAI 403, 404); claude-code#536, test-infra#5721, litellm#28704 (Bedrock); uni-api#41, continue#4392 (Vertex); BettaFish#609 (DashScope); no thread for the others"),

    says(Model(REGION), &["access to anthropic models is not allowed from unsupported countries, regions, or territories",
        "publisher model {model} is not servable in region *"],
        "claude-code#2656, TRAE#2092 (Bedrock); no thread for Vertex, whose sentence stands in documents of several projects"),

    // Words about this request, here or anywhere.
    says(Here, &["exceededbudget: end user=*", "litellm end user: *", "budget has been exceeded! tag=*"],
        "litellm: proxy/auth/auth_checks.py, budgets of what the client names"),
    says(Fewer, &["*but can only afford*", "*requires more credits, or fewer max_tokens*", "max_tokens limit exceeded*", "more credits are required to run this request*"],
        "openclaude#1125, cline#940, forgecode#571 (OpenRouter 402)"),
    says(OverLimit, &["request too large for*", "*request too large*tokens per min*", "prompt tokens limit exceeded*", "extra usage is required for long context*",
        "usage credits are required for long context*",
        "request body too large for*", "*exceeds the maximum usage size allowed during peak load*", "*tokens per minute (tpm): limit *, requested*please reduce your message size*"],
        "aider#1880 (OpenAI), podscript#20 (Groq); continue#11227 (OpenRouter); claude-code#42616 and #64982 (Anthropic); tsc-meetings#593 (GitHub Models)"),
    says(Context, &["*maximum context length*", "*maximum model length*", "*maximum prompt length*", "*model's context length*", "*max_model_len*",
        "*available context size*", "*exceed context window*", "*exceeds the context window*", "*prompt is too long*", "*input is too long*",
        "*reduce the length of the messages*", "*total number of tokens in the prompt cannot exceed*", "*exceeds the maximum number of tokens*",
        "*'' tokens + '' must be*", "*range of input length should be*", "*exceeded model token limit*", "*model max length exceeded*", "*input token count*exceeds*",
        "*input length and '' exceed context limit*", "*input length and max_tokens exceed context limit*", "*prompt exceeds max length*",
        "*exceeds the model's max*", "*exceeds model's maximum*", "*input characters limit*", "*input tokens exceed*",
        "*max_tokens must be at least 1, got -*", "*tokens to keep from the initial prompt is greater than the context length*",
        "*trying to keep the first * tokens when context the overflows*"],
        "vllm#20409 and #4667; llama.cpp#15780; textgen#7257; gemini-cli#4692; goose#7504, assessment-generator#2 (Anthropic, Bedrock); QwenPaw#6255 (DashScope); MoonshotAI-Cookbook#18; docs.bigmodel.cn; no thread for the others").at(&[400, 413, 422]),
    // What a request draws from there, the plan or the extra usage, is decided by what the request holds.
    says(Here, &["third-party apps now draw from your extra usage*", "you're out of extra usage*"],
        "claude-code#45048 and pi#2943 (Anthropic)").at(&[400, 402, 403, 429]),
    says(Here, &["user: * is not authorized to perform: bedrock:invokemodelwithresponsestream*"], "no thread: a policy that allows whole answers only"),
    says(Here, &["this is a chat model and not supported in the v1/completions endpoint*", "unknown request url*"],
        "no thread: OpenAI and Groq, about the address of legacy completions"),
    says(Context, &["*input context is too long*", "*too large to be processed in time*"], "ai.google.dev troubleshooting (Gemini)").at(&[500, 504]),
    says(TooLarge, &["request payload size exceeds the limit*"], "no thread: Gemini").at(&[400]),
    says(Here, &["no endpoints found that*", "no endpoints found matching*", "no allowed providers are available*", "no endpoints available*"],
        "anon-kode#2 and #13, zed#36094, truefoundry/models#826 (OpenRouter 404)"),
    says(Here, &["*permission to access the file*", "*permission to access file*", "cachedcontent not found*", "file not found*", "*file '' not found*", "*file '' does not exist*",
        "no such file object*", "*vector store*not found*", "*container*not found*", "*container*expired*", "previous response*not found*", "*conversation*not found*",
        "item with id*not found*", "*does not belong to your organization*", "*assistant*not found*", "*guardrail identifier*", "*batch*not found*", "no such*object*"],
        "python-genai#1218 (Gemini); Anthropic files; bifrost#2441, litellm#30942 (OpenAI); no thread for the others").at(&[400, 401, 403, 404]),
    says(Here, &["your organization must be verified to stream this model*", "your organization must be verified to generate reasoning summaries*"],
        "pal-mcp-server#134 (OpenAI 400: only for what the request asks for)"),
    says(Content, &["*content filtering policy*", "*violating our usage policy*", "*content management policy*", "*was flagged as potentially violating*",
        "*rejected by the safety system*", "*rejected as a result of our safety system*", "*considered high risk*", "*violates usage guidelines*", "*inappropriate content*"],
        "claude-code#58367 (Anthropic); t0-1#69, ZJT#480, clipsketch-ai#6 (OpenAI); TinyTroupe#85 (Azure); owl#432 (DashScope); no thread for Moonshot and xAI"),
    says(Content, &["*content policy*", "*content_policy*", "*content filter*", "*policy violation*", "*usage policies*", "*usage policy*", "*moderation*", "*flagged*", "*safety*"],
        "no thread: 403 of several servers").at(&[403]),

];

/// Types, statuses and exceptions that name a kind of failure, as far as an error without a status of its own needs one: the
/// finer ones first.
pub(super) static TYPES: &[(&str, FailureKind)] = &[
    ("*too_large*", FailureKind::TooLarge),
    ("image_*", FailureKind::BadRequest),
    ("*user_error", FailureKind::BadRequest),
    ("*unprocessable*", FailureKind::Unprocessable),
    ("*rate_limit*", FailureKind::RateLimited),
    ("*too_many_requests*", FailureKind::RateLimited),
    ("resource_exhausted", FailureKind::RateLimited),
    ("*throttl*", FailureKind::RateLimited),
    ("servicequotaexceededexception", FailureKind::RateLimited),
    ("modeltimeoutexception", FailureKind::Timeout),
    ("timeout_error", FailureKind::Timeout),
    ("cancelled", FailureKind::Timeout),
    ("minimax.1001", FailureKind::Timeout),
    ("minimax.1002", FailureKind::RateLimited),
    ("minimax.1039", FailureKind::RateLimited),
    ("minimax.2045", FailureKind::RateLimited),
    ("minimax.1041", FailureKind::Overloaded),
    ("minimax.1000", FailureKind::Server),
    ("minimax.1024", FailureKind::Server),
    ("minimax.1033", FailureKind::Server),
    ("minimax.1042", FailureKind::BadRequest),
    ("minimax.2013", FailureKind::BadRequest),
    // A voice that the client names, and what is not known: about this request.
    ("minimax.*", FailureKind::RefusedHere),
    ("deadline_exceeded", FailureKind::Timeout),
    ("*overloaded*", FailureKind::Overloaded),
    ("*capacity*", FailureKind::Overloaded),
    ("*unavailable*", FailureKind::Overloaded),
    ("modelnotreadyexception", FailureKind::Overloaded),
    ("*authentication*", FailureKind::Auth),
    ("unauthenticated", FailureKind::Auth),
    ("billing*", FailureKind::Auth),
    ("accessdeniedexception", FailureKind::Forbidden),
    ("*permission*", FailureKind::Forbidden),
    ("*not_found*", FailureKind::NotFound),
    ("resourcenotfoundexception", FailureKind::NotFound),
    ("validationexception", FailureKind::BadRequest),
    ("invalid_argument", FailureKind::BadRequest),
    ("failed_precondition", FailureKind::BadRequest),
    ("out_of_range", FailureKind::BadRequest),
    ("*invalid_request*", FailureKind::BadRequest),
    ("*bad_request*", FailureKind::BadRequest),
    ("badrequesterror", FailureKind::BadRequest),
    ("modelerrorexception", FailureKind::Server),
    ("modelstreamerrorexception", FailureKind::Server),
    ("internal*", FailureKind::Server),
    ("unknown", FailureKind::Server),
    ("data_loss", FailureKind::Server),
    ("aborted", FailureKind::Server),
    ("api_error", FailureKind::Server),
    ("conflict_error", FailureKind::Server),
    ("invalid_*", FailureKind::BadRequest),
    ("unsupported_image*", FailureKind::BadRequest),
    ("empty_image*", FailureKind::BadRequest),
    ("failed_to_download_image*", FailureKind::BadRequest),
];

/// Words that are about the gateway's own account, outside of anything quoted. Clients are not shown a message with one.
pub(super) static ABOUT_US: &[&str] = &[
    "account",
    "arn:aws",
    "api key",
    "api-key",
    "apikey",
    "billing",
    "credit",
    "extra usage",
    "balance",
    "payment",
    "invoice",
    "organization",
    "organisation",
    "subscription",
    "your plan",
    "quota",
    "your team",
    "project",
    "workspace",
    "tenant",
    "resource group",
    "credential",
    "access token",
    "unauthorized",
];

/// How names begin of what belongs to an account, quoted or not. A client may read those that it has sent.
pub(super) static OURS: &[&str] = &["projects/", "arn:aws"];

/// Words about names of models and rights of the gateway, outside of anything quoted. A client can do nothing about them.
pub(super) static ABOUT_ACCESS: &[&str] = &[
    "have access",
    "not authorized",
    "access denied",
    "access is denied",
    "caller does not have permission",
    "forbidden",
    "key",
    "***",
    "model not found",
    "model was not found",
    "model does not exist",
    "model is not available",
    "no such model",
    "access to the model",
    "access to this model",
    "access to model",
    "model is not found",
    "model {model}",
    "the requested model",
];
