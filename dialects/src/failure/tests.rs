use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

const FACTS: FailureContext<'_> =
    FailureContext { model: "gpt-4o", collection: "docs", id: 7, now: 1_764_460_800, retry_after: None };

fn failure(
    dialect: Dialect,
    operation: Operation,
    cause: Cause,
    facts: &FailureContext<'_>,
) -> (Failure, Value) {
    let failure = render(Some(dialect), Some(operation), cause, facts).unwrap();
    let body = serde_json::from_slice(&failure.body).unwrap();
    (failure, body)
}

fn header<'f>(failure: &'f Failure, name: &str) -> Option<&'f str> {
    failure.headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str())
}

#[test]
fn r_f3_openai_limits_tokens_as_openai_does() {
    let (failure, body) = failure(Dialect::OpenAi, Operation::Chat, Cause::RateLimitTokens, &FACTS);
    assert_eq!(failure.status, 429);
    assert_eq!(
        body,
        json!({"error": {
            "message": "Rate limit reached for gpt-4o in organization org-AconiteInjectedFault0000 on tokens per min (TPM): \
                        Limit 30000, Used 30000, Requested 600. Please try again in 1.2s. Visit \
                        https://platform.openai.com/account/rate-limits to learn more.",
            "type": "tokens",
            "param": null,
            "code": "rate_limit_exceeded",
        }})
    );
    assert_eq!(header(&failure, "content-type"), Some("application/json"));
    assert_eq!(header(&failure, "retry-after"), Some("2"));
    assert_eq!(header(&failure, "x-ratelimit-remaining-tokens"), Some("0"));
    assert_eq!(header(&failure, "x-ratelimit-reset-tokens"), Some("1m0s"));
    assert_eq!(header(&failure, "x-ratelimit-remaining-requests"), Some("499"));
    assert_eq!(header(&failure, "x-ratelimit-reset-requests"), Some("120ms"));
    assert!(header(&failure, "x-request-id").unwrap().starts_with("req_"));
}

#[test]
fn r_f3_the_text_and_the_header_tell_the_same_wait() {
    let facts = FailureContext { retry_after: Some(Duration::from_secs(20)), ..FACTS };
    let (failure, body) = failure(Dialect::OpenAi, Operation::Responses, Cause::RateLimitRequests, &facts);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("(RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."), "{message}");
    assert_eq!(header(&failure, "retry-after"), Some("20"));
    assert_eq!(header(&failure, "x-ratelimit-limit-requests"), Some("3"));
    assert_eq!(header(&failure, "x-ratelimit-remaining-requests"), Some("0"));
    assert_eq!(header(&failure, "x-ratelimit-remaining-tokens"), Some("30000"));
    assert_eq!(body["error"]["type"], "requests");
}

#[test]
fn r_f3_a_too_long_prompt_is_worded_per_operation() {
    for (operation, param, code, text) in [
        (
            Operation::Chat,
            json!("messages"),
            json!("context_length_exceeded"),
            "your messages resulted in 129024 tokens",
        ),
        (
            Operation::Responses,
            json!("input"),
            json!("context_length_exceeded"),
            "exceeds the context window",
        ),
        (Operation::Embeddings, json!(null), json!(null), "9216 in your prompt; 0 for the completion"),
    ] {
        let (failure, body) = failure(Dialect::OpenAi, operation, Cause::ContextLength, &FACTS);
        assert_eq!(failure.status, 400);
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert_eq!((&body["error"]["param"], &body["error"]["code"]), (&param, &code));
        assert!(body["error"]["message"].as_str().unwrap().contains(text));
        assert_eq!(header(&failure, "retry-after"), None);
    }
}

#[test]
fn openai_fails_and_is_overloaded() {
    let (error, body) = failure(Dialect::OpenAi, Operation::Chat, Cause::ServerError, &FACTS);
    let id = header(&error, "x-request-id").unwrap();
    assert_eq!(
        (error.status, &body["error"]["type"], &body["error"]["code"]),
        (500, &json!("server_error"), &json!(null))
    );
    assert!(body["error"]["message"].as_str().unwrap().contains(id));

    let (overloaded, body) = failure(Dialect::OpenAi, Operation::Chat, Cause::Overloaded, &FACTS);
    assert_eq!(overloaded.status, 503);
    assert_eq!(body["error"]["code"], "server_is_overloaded");
    assert_eq!(header(&overloaded, "retry-after"), None);
}

#[test]
fn anthropic_limits_as_anthropic_does() {
    let facts = FailureContext {
        model: "claude-opus-4-6",
        retry_after: Some(Duration::from_millis(15_500)),
        ..FACTS
    };
    let (failure, body) = failure(Dialect::Anthropic, Operation::Chat, Cause::RateLimitTokens, &facts);
    assert_eq!(failure.status, 429);
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!("rate_limit_error")));
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute (org: "
    ));
    assert!(message.contains("model: claude-opus-4-6)"));
    assert_eq!(header(&failure, "request-id"), body["request_id"].as_str());
    assert_eq!(header(&failure, "retry-after"), Some("16"));
    assert_eq!(header(&failure, "anthropic-ratelimit-input-tokens-remaining"), Some("0"));
    assert_eq!(header(&failure, "anthropic-ratelimit-input-tokens-reset"), Some("2025-11-30T00:00:16Z"));
    assert_eq!(header(&failure, "anthropic-ratelimit-requests-remaining"), Some("49"));
    assert_eq!(header(&failure, "x-should-retry"), Some("true"));
}

#[test]
fn anthropic_says_the_rest_as_anthropic_does() {
    for (cause, status, kind, text) in [
        (
            Cause::ContextLength,
            400,
            "invalid_request_error",
            "prompt is too long: 208310 tokens > 200000 maximum",
        ),
        (Cause::ServerError, 500, "api_error", "Internal server error"),
        (Cause::Overloaded, 529, "overloaded_error", "Overloaded"),
    ] {
        let (failure, body) = failure(Dialect::Anthropic, Operation::Chat, cause, &FACTS);
        assert_eq!((failure.status, &body["error"]), (status, &json!({"type": kind, "message": text})));
        assert_eq!(header(&failure, "retry-after"), None);
    }
}

#[test]
fn ids_have_the_form_of_the_providers_and_differ() {
    let facts = |id| FailureContext { id, ..FACTS };
    let id_of = |dialect, id, name: &str| {
        let (_, body) = failure(dialect, Operation::Chat, Cause::Overloaded, &facts(id));
        body[name].as_str().unwrap_or_default().to_owned()
    };
    let request_ids: BTreeSet<_> = (0..100).map(|id| id_of(Dialect::Anthropic, id, "request_id")).collect();
    assert_eq!(request_ids.len(), 100);
    for id in &request_ids {
        // As in the provider's documentation: req_011CSHoEeqs5C35K2UUqR7Fy.
        let rest = id.strip_prefix("req_011C").unwrap_or_default();
        let is_base58 = |c: char| c.is_ascii_alphanumeric() && !"0OIl".contains(c);
        assert!(rest.len() == 20 && rest.chars().all(is_base58), "{id}");
    }
    assert!(request_ids.iter().flat_map(|id| id[8..].chars()).any(|c| c > 'f'), "more than hexadecimal");
    let uuids: BTreeSet<_> = (0..100).map(|id| facts(id).uuid()).collect();
    assert_eq!(uuids.len(), 100);
    for uuid in &uuids {
        let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert!(uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{uuid}");
        assert_eq!((&uuid[14..15], "89ab".contains(&uuid[19..20])), ("4", true), "{uuid}");
    }
}

#[test]
fn sse_26_a_failure_within_a_stream_is_the_dialects_own() {
    let frame = |dialect, operation, cause| {
        let events = in_stream(Some(dialect), Some(operation), cause, &FACTS, 9);
        String::from_utf8(events.iter().flat_map(|event| event.raw().to_vec()).collect()).unwrap()
    };
    assert_eq!(
        frame(Dialect::Anthropic, Operation::Chat, Cause::Overloaded),
        format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}},\
             \"request_id\":\"req_011C{}\"}}\n\n",
            FACTS.base58(20)
        )
    );
    let chat = frame(Dialect::OpenAi, Operation::Chat, Cause::ServerError);
    assert!(chat.starts_with("data: {\"error\":{\"message\":\"The server had an error"), "{chat}");
    assert!(chat.ends_with("\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"), "{chat}");
    let responses = frame(Dialect::OpenAi, Operation::Responses, Cause::ServerError);
    assert!(
        responses
            .starts_with("event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":")
    );
    assert!(responses.ends_with("\"param\":null,\"sequence_number\":9}\n\n"), "{responses}");
    assert_eq!(
        frame(Dialect::Ollama, Operation::Chat, Cause::ServerError),
        "{\"error\":\"Internal server error\"}\n"
    );
    assert!(
        frame(Dialect::Gemini, Operation::Chat, Cause::Overloaded)
            .starts_with("data: {\"error\":{\"code\":503,")
    );
    assert_eq!(frame(Dialect::Chroma, Operation::VectorSearch, Cause::ServerError), "");
    let bedrock = |cause| in_stream(Some(Dialect::Bedrock), Some(Operation::Chat), cause, &FACTS, 0).pop();
    let exception = bedrock(Cause::RateLimitRequests).unwrap();
    assert!(exception.is_aws_failure());
    assert_eq!(exception.name().as_deref(), Some("throttlingException"));
    assert!(exception.data().starts_with(b"{\"message\":\"Too many requests, "));
    assert_eq!(bedrock(Cause::Auth), None, "the service model has no such exception in a stream");
}

#[test]
fn gemini_says_the_wait_in_the_body() {
    let facts = FailureContext { model: "gemini-2.5-pro", ..FACTS };
    let (failure, body) = failure(Dialect::Gemini, Operation::Chat, Cause::RateLimitRequests, &facts);
    assert_eq!((failure.status, &body["error"]["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(body["error"]["details"][2]["retryDelay"], "26s");
    assert_eq!(header(&failure, "retry-after"), None);
    assert!(
        failure.body.starts_with(b"{\n  \"error\": {\n    \"code\": 429,\n")
            && failure.body.ends_with(b"}\n")
    );
}

#[test]
fn every_dialect_words_the_basic_causes() {
    let basic = [Cause::RateLimitTokens, Cause::RateLimitRequests, Cause::ServerError, Cause::Overloaded];
    for cause in basic {
        for dialect in Dialect::ALL.iter().copied().map(Some).chain([None]) {
            let failure =
                render(dialect, None, cause, &FACTS).unwrap_or_else(|| panic!("{dialect:?} {cause}"));
            assert!(failure.status >= 400 || dialect == Some(Dialect::Milvus), "{dialect:?} {cause}");
            assert!(serde_json::from_slice::<Value>(&failure.body).is_ok());
            assert!(header(&failure, "content-type").unwrap().starts_with("application/json"));
        }
    }
}

#[test]
fn r_f11_a_gateway_answers_in_html_unless_the_provider_does_itself() {
    for (cause, status) in [(Cause::BadGateway, 502), (Cause::Unavailable, 503), (Cause::GatewayTimeout, 504)]
    {
        let failure = render(Some(Dialect::OpenAi), Some(Operation::Chat), cause, &FACTS).unwrap();
        assert_eq!(failure.status, status);
        assert!(failure.body.starts_with(format!("<html>\r\n<head><title>{status} ").as_bytes()));
        assert_eq!(header(&failure, "content-type"), Some("text/html"));
    }
    let gemini = render(Some(Dialect::Gemini), None, Cause::Unavailable, &FACTS).unwrap();
    assert!(gemini.body.starts_with(b"{"));
}

#[test]
fn r_f4_a_filtered_prompt_is_refused_in_each_providers_words() {
    let (_, azure) = failure(Dialect::Azure, Operation::Chat, Cause::ContentFilter, &FACTS);
    let error = &azure["error"];
    assert_eq!(
        (&error["code"], &error["status"], &error["type"]),
        (&json!("content_filter"), &json!(400), &json!(null))
    );
    assert_eq!(
        error["innererror"]["content_filter_result"]["sexual"],
        json!({"filtered": true, "severity": "high"})
    );
    let (_, dashscope) = failure(Dialect::DashScope, Operation::Chat, Cause::ContentFilter, &FACTS);
    assert_eq!(dashscope["error"]["code"], "data_inspection_failed");
}

#[test]
fn openai_has_a_type_and_a_code_for_each_cause() {
    for (cause, status, kind, code) in [
        (Cause::RequestTooLargeForLimit, 429, "tokens", json!("rate_limit_exceeded")),
        (Cause::SlowDown, 429, "rate_limit_error", json!("slow_down")),
        (Cause::QuotaExhausted, 429, "insufficient_quota", json!("insufficient_quota")),
        (Cause::Billing, 429, "insufficient_quota", json!("credit_balance_exhausted")),
        (Cause::ContentFilter, 400, "invalid_request_error", json!("invalid_prompt")),
        (Cause::Auth, 401, "invalid_request_error", json!("invalid_api_key")),
        (Cause::Permission, 403, "request_forbidden", json!("unsupported_country_region_territory")),
        (Cause::ModelNotFound, 404, "invalid_request_error", json!("model_not_found")),
        (Cause::InvalidRequest, 400, "invalid_request_error", json!("unsupported_parameter")),
        (Cause::Conflict, 409, "invalid_request_error", json!(null)),
        (Cause::Timeout, 408, "server_error", json!(null)),
        (Cause::Capacity, 503, "server_error", json!(null)),
    ] {
        let (failure, body) = failure(Dialect::OpenAi, Operation::Chat, cause, &FACTS);
        assert_eq!(
            (failure.status, &body["error"]["type"], &body["error"]["code"]),
            (status, &json!(kind), &code),
            "{cause}"
        );
        assert_eq!(header(&failure, "retry-after"), None, "{cause}");
    }
}

#[test]
fn a_request_too_large_for_the_limit_finds_the_bucket_full() {
    let (failure, _) = failure(Dialect::OpenAi, Operation::Chat, Cause::RequestTooLargeForLimit, &FACTS);
    assert_eq!(header(&failure, "x-ratelimit-remaining-tokens"), Some("30000"));
    assert_eq!(header(&failure, "x-ratelimit-reset-tokens"), Some("0s"));
}

#[test]
fn anthropic_has_a_type_for_each_cause() {
    for (cause, status, kind) in [
        (Cause::SlowDown, 429, "rate_limit_error"),
        (Cause::SpendLimit, 429, "rate_limit_error"),
        (Cause::QuotaExhausted, 400, "invalid_request_error"),
        (Cause::Billing, 402, "billing_error"),
        (Cause::Auth, 401, "authentication_error"),
        (Cause::Permission, 403, "permission_error"),
        (Cause::ModelNotFound, 404, "not_found_error"),
        (Cause::Conflict, 409, "conflict_error"),
        (Cause::PayloadTooLarge, 413, "request_too_large"),
        (Cause::GatewayTimeout, 504, "timeout_error"),
    ] {
        let (failure, body) = failure(Dialect::Anthropic, Operation::Chat, cause, &FACTS);
        assert_eq!((failure.status, &body["error"]["type"]), (status, &json!(kind)), "{cause}");
        assert_eq!(header(&failure, "retry-after"), None, "{cause}");
    }
    let (_, spent) = failure(Dialect::Anthropic, Operation::Chat, Cause::SpendLimit, &FACTS);
    assert_eq!(spent["error"]["details"], json!({"error_code": "enforced_spend_limit_reached"}));
}

#[test]
fn r_f13_qdrant_begins_its_texts_with_the_kind_of_error() {
    for (cause, status, text) in [
        (Cause::RateLimitRequests, 429, "Rate limiting exceeded: "),
        (Cause::Timeout, 408, "Timeout: "),
        (Cause::ServerError, 500, "Service internal error: "),
        (Cause::ShardUnavailable, 503, "Shard temporarily unavailable: "),
        (Cause::DimensionMismatch, 400, "Wrong input: Vector dimension error: expected dim: 4, got 3"),
        (Cause::CollectionMissing, 404, "Not found: Collection `docs` doesn't exist!"),
        (Cause::Conflict, 409, "Wrong input: Collection `docs` already exists!"),
        (Cause::StorageFull, 507, "Insufficient storage: "),
        (Cause::Permission, 403, "Forbidden: "),
    ] {
        let (failure, body) = failure(Dialect::Qdrant, Operation::VectorSearch, cause, &FACTS);
        assert_eq!(failure.status, status, "{cause}");
        assert!(body["status"]["error"].as_str().unwrap().starts_with(text), "{cause}");
        assert_eq!(header(&failure, "retry-after").is_some(), status == 429);
    }
    let auth = render(Some(Dialect::Qdrant), None, Cause::Auth, &FACTS).unwrap();
    assert_eq!((auth.status, header(&auth, "content-type")), (401, Some("text/plain; charset=utf-8")));
}

#[test]
fn a_wrong_key_is_refused_by_everyone() {
    for dialect in Dialect::ALL.iter().copied().map(Some).chain([None]) {
        let failure = render(dialect, None, Cause::Auth, &FACTS).unwrap_or_else(|| panic!("{dialect:?}"));
        let usual = [400, 401, 403].contains(&failure.status);
        assert!(usual, "{dialect:?} {}", failure.status);
    }
}

#[test]
fn an_answer_that_is_no_failure_is_not_rendered_as_one() {
    for cause in [Cause::FilteredAnswer, Cause::Refusal] {
        assert_eq!(render(Some(Dialect::OpenAi), Some(Operation::Chat), cause, &FACTS), None);
        assert!(in_stream(Some(Dialect::OpenAi), Some(Operation::Chat), cause, &FACTS, 0).is_empty());
    }
}

#[test]
fn the_same_facts_give_the_same_bytes_and_others_other_ids() {
    let of = |id| {
        render(Some(Dialect::OpenAi), None, Cause::ServerError, &FailureContext { id, ..FACTS }).unwrap()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(header(&of(1), "x-request-id"), header(&of(2), "x-request-id"));
}

#[test]
fn names_of_causes() {
    assert_eq!(Cause::of_name("rate_limit"), Some(Cause::RateLimitTokens));
    assert_eq!(Cause::ALL.len(), 29);
    assert_eq!(Cause::ShardUnavailable.name(), "shard_unavailable");
}
