//! The web page: three files that `scripts/web.sh` builds from `web/`, and that are embedded in the program.
//!
//! They hold no data and can be loaded without a token. The page asks the user for the token, and sends it with its requests.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;

/// A file of the page.
#[derive(Debug)]
struct PageFile {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

/// The files of the page.
static FILES: [PageFile; 3] = [
    PageFile {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("../../page/index.html"),
    },
    PageFile {
        path: "/app.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../../page/app.js"),
    },
    PageFile {
        path: "/app.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../../page/app.css"),
    },
];

/// Browsers ask for this path whether or not a page names it.
const ICON: &str = "/favicon.ico";

/// Whether the path is one of the page's files, which every client may load.
pub fn is_public(path: &str) -> bool {
    path == ICON || FILES.iter().any(|file| file.path == path)
}

/// Adds the routes of the page's files.
pub fn add_routes<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    let router = router.route(ICON, get(|| async { StatusCode::NO_CONTENT }));
    FILES.iter().fold(router, |router, file| {
        let answer = move || async move { ([(header::CONTENT_TYPE, file.content_type)], file.text) };
        router.route(file.path, get(answer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> &'static str {
        FILES.iter().find(|file| file.path == path).unwrap().text
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
