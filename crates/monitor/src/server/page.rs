//! The web page: three files that `scripts/web.sh` builds from `web/`, and that are embedded in the program.
//!
//! They hold no data and can be loaded without a token. The page asks the user for the token, and sends it with its requests.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;

/// The files of the page: path, type and text of each.
static FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("../../page/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("../../page/app.js")),
    ("/app.css", "text/css; charset=utf-8", include_str!("../../page/app.css")),
];

/// Browsers request this path whether or not a page names it.
const ICON: &str = "/favicon.ico";

/// Whether the path is one of the page's files, which every client may load.
pub fn is_public(path: &str) -> bool {
    path == ICON || FILES.iter().any(|(known, ..)| *known == path)
}

/// Adds the routes of the page's files.
pub fn add_routes<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    let router = router.route(ICON, get(|| async { StatusCode::NO_CONTENT }));
    FILES.iter().fold(router, |router, (path, content_type, text)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, *content_type)], *text) }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> &'static str {
        FILES.iter().find(|(known, ..)| *known == path).unwrap().2
    }

    #[test]
    fn only_the_files_of_the_page_are_public() {
        for path in ["/", "/app.js", "/app.css", "/favicon.ico"] {
            assert!(is_public(path), "{path}");
        }
        for path in
            ["", "//", "/metrics", "/api/v1/readings", "/api/v1/families", "/app.js/", "/App.js", "/app"]
        {
            assert!(!is_public(path), "{path}");
        }
    }

    /// The Content-Security-Policy would block an inline script or style, and resources of other origins.
    #[test]
    fn the_page_loads_its_own_files_only() {
        let html = text("/");
        assert!(html.contains("src=\"/app.js\"") && html.contains("href=\"/app.css\""), "{html}");
        for forbidden in ["://", "<style", " style=", " onclick=", "javascript:", "data:"] {
            assert!(!html.contains(forbidden), "{forbidden} in {html}");
        }
        assert_eq!(html.matches("<script").count(), 1, "{html}");
        assert!(!text("/app.css").contains("url(") && !text("/app.css").contains("@import"));
    }
}
