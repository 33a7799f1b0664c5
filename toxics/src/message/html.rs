use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, SERVER},
    request,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Decision, Dice, ExchangeFilter, Instance, Level, Moment, Scope, Toxic, Verdict};

/// Responds with an HTML page, as gateways, CDNs and captive portals do.
///
/// No official SDK treats a page with status 200 as an error: a plain call returns the page as a string, a stream is
/// empty and looks complete; LangChain raises `ValueError` or `AttributeError`, qdrant-client `JSONDecodeError`. A 502
/// is retried like any other, and the final exception has the page in its message (openai-python: only the code).
///
/// The request is not forwarded. `stream` makes no difference.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Html {
    /// Whose page it is.
    r#as: Page,
}

/// A page that comes instead of an answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Page {
    /// A corporate proxy's page: the site is blocked. Status 200.
    #[serde(rename = "proxy_200")]
    Proxy200,
    /// nginx's page for a bad gateway. Status 502.
    #[serde(rename = "nginx_502")]
    Nginx502,
    /// Cloudflare's page for an origin that took longer than 100 seconds. Status 524.
    #[serde(rename = "cloudflare_524")]
    Cloudflare524,
    /// A captive portal's login page. Status 200.
    Login,
}

impl Toxic for Html {
    const TYPE: &'static str = "html";
    const LEVEL: Level = Level::Exchange;

    fn example() -> Self {
        Self { r#as: Page::Proxy200 }
    }

    fn start(&self, _: &Scope, dice: Dice) -> Instance {
        Instance::Exchange(Box::new(Instead { page: self.r#as, dice }))
    }
}

struct Instead {
    page: Page,
    dice: Dice,
}

impl ExchangeFilter for Instead {
    fn on_request(&mut self, _: &mut request::Parts, _: Moment) -> Decision {
        let mut response = Response::new(Bytes::from_static(self.page.body().as_bytes()));
        *response.status_mut() = self.page.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.page.content_type());
        match self.page {
            Page::Nginx502 => {
                headers.insert(SERVER, HeaderValue::from_static("nginx/1.24.0"));
            }
            Page::Cloudflare524 => {
                headers.insert(SERVER, HeaderValue::from_static("cloudflare"));
                let ray = format!("{:016x}-FRA", self.dice.bits());
                if let Ok(ray) = ray.parse() {
                    headers.insert(HeaderName::from_static("cf-ray"), ray);
                }
            }
            Page::Proxy200 | Page::Login => {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            }
        }
        Decision::instead(Verdict::Respond(Box::new(response)))
    }
}

impl Page {
    fn status(self) -> StatusCode {
        match self {
            Self::Proxy200 | Self::Login => StatusCode::OK,
            Self::Nginx502 => StatusCode::BAD_GATEWAY,
            Self::Cloudflare524 => StatusCode::from_u16(524).expect("524 lies between 100 and 999"),
        }
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Nginx502 => "text/html",
            _ => "text/html; charset=UTF-8",
        })
    }

    fn body(self) -> &'static str {
        match self {
            Self::Proxy200 => PROXY_200,
            Self::Nginx502 => NGINX_502,
            Self::Cloudflare524 => CLOUDFLARE_524,
            Self::Login => LOGIN,
        }
    }
}

const PROXY_200: &str = "<!DOCTYPE html>
<html><head><title>Access Denied</title></head>
<body>
<h1>Access to this site has been blocked</h1>
<p>The page you requested is not allowed by your organization's policy. Category: Artificial Intelligence.</p>
<p>If you believe that this is an error, please contact your administrator.</p>
</body></html>
";

const NGINX_502: &str = "<html>\r
<head><title>502 Bad Gateway</title></head>\r
<body>\r
<center><h1>502 Bad Gateway</h1></center>\r
<hr><center>nginx/1.24.0</center>\r
</body>\r
</html>\r
";

const CLOUDFLARE_524: &str = "<!DOCTYPE html>
<html lang=\"en-US\"><head><title>524: A timeout occurred</title></head>
<body>
<h1>A timeout occurred <span>Error code 524</span></h1>
<p>The origin web server timed out responding to this request.</p>
</body></html>
";

const LOGIN: &str = "<!DOCTYPE html>
<html><head><title>Sign in to the network</title></head>
<body>
<form method=\"post\" action=\"/login\">
<h1>Welcome</h1>
<p>Please sign in to use this network.</p>
<input name=\"user\"><input name=\"password\" type=\"password\"><button>Sign in</button>
</form>
</body></html>
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::script::{Exchange, answer};

    #[test]
    fn sse_25_pages_come_instead_of_an_answer() {
        for (page, status) in
            [("proxy_200", 200), ("nginx_502", 502), ("cloudflare_524", 524), ("login", 200)]
        {
            let mut exchange = Exchange::new::<Html>(json!({"as": page}), &Scope::default());
            let answer = answer(exchange.request());
            assert_eq!(answer.status(), status);
            assert!(answer.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
            assert!(answer.body().starts_with(b"<"));
            assert_eq!(answer.headers().contains_key("cf-ray"), page == "cloudflare_524");
        }
    }
}
