//! `hotshoe report`: the page of a host, and how a browser shows it.

use hotshoe_tests::browser::Browser;
use hotshoe_tests::faulty::{SECRET, WORKS, fault, hides_secret, scene_with_faults, serves, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::SECRET as SECRETS;
use hotshoe_tests::{Host, Scene, memcached, run, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

const WORDS: &str = "Nothing stands in";
/// Words of a plugin, as long as those, which would begin a script.
const EVIL: &str = "<script>/*hello*/";
/// As long as a name may be.
const LONG: usize = 253;

/// Waits for the status of one of a host's plugins.
async fn until(host: &Host, plugin: &str, what: &str, holds: impl Fn(&Value) -> bool) {
    wait::until(what, wait::TIMEOUT, async || {
        let status = host.status().await.map_err(|error| error.to_string())?;
        let plugins = status["plugins"].as_array().cloned().unwrap_or_default();
        let found = plugins.iter().find(|found| found["name"] == plugin).is_some_and(&holds);
        if found { Ok(()) } else { Err(format!("{status:#}")) }
    })
    .await;
}

/// Has a component wait for an approval, beside one that decides.
async fn until_waiting(host: &Host, folder: &Folder, plugin: &str, component: &[u8]) {
    folder.edit("spec:\n", "spec:\n  mode: Shadow\n");
    folder.put(component);
    let (code, _, said) = host.ask_for_output(&["reload", plugin]);
    assert!(code == Some(1) && said.contains("ApprovalRequired"), "{said}");
    until(host, plugin, "a component waits", |found| found["refused"]["reason"] == "ApprovalRequired").await;
}

fn report(host: &Host, options: &[&str]) -> String {
    let (code, page, said) = host.ask_for_output(&[&["report"], options].concat());
    assert_eq!(code, Some(0), "{said}");
    page
}

/// Starts a host with an object of this plugin that is served, and one with a long name of another that is in trouble.
async fn served(name: &str, folder: &Folder) -> (Scene, Host, Folder) {
    let (mut scene, faulty) = (scene_with_faults(name).await, Folder::of_faulty());
    let host = scene.start().await.plugins(&[folder.path(), faulty.path()]).ready().await;
    scene.watch_log(&host);
    scene.create(memcached("one", 1)).await;
    scene.available("one").await;
    scene.create(fault(&"m".repeat(LONG), "trap")).await;
    until(&host, "faulty", "an object is in trouble", |found| found["trouble"]["failing"] == 1).await;
    (scene, host, faulty)
}

#[test]
fn what_a_component_that_waits_would_change_is_on_the_page() {
    run(async {
        let folder = Folder::of_memcached();
        let (scene, host, _faulty) = served("reported", &folder).await;
        assert!(!report(&host, &[]).contains("<pre>"), "nothing waits");
        until_waiting(&host, &folder, "memcached", &reworded(folder.original(), WORDS, EVIL)).await;
        let page = report(&host, &[]);
        let object = format!("Memcached.cache.example.com {}&#x2f;one", scene.namespace);
        let change = "<span class=\"wait\">  ~ condition Degraded.message: &quot;Nothing stands in";
        for words in ["Waits for an approval", &object, change, "-&gt; &quot;&lt;script&gt;"] {
            assert!(page.contains(words), "{words:?} in {page}");
        }
        assert!(!page.contains("<script"), "{page}");
        let page = report(&host, &["--no-diff"]);
        assert!(page.contains("Waits for an approval") && !page.contains("Degraded.message"), "{page}");

        // The file has another component by now.
        folder.put(b"none");
        let page = report(&host, &[]);
        assert!(page.contains("It was not compared: ") && page.contains("another component by now"), "{page}");
    });
}

#[test]
fn no_byte_of_a_secret_is_in_what_a_component_that_waits_would_change() {
    run(async {
        let folder = Folder::of_faulty();
        folder.edit("  grants:", "  grants:\n    - {kind: Secret, verbs: [get], names: [\"fault-*\"]}");
        let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
        let mut scene = scene_with_faults("reported-secrets").await;
        scene.plane.grant("faulty", "tests-reported-secrets", &rules).await;
        let (metadata, held) = (json!({ "name": "fault-0" }), json!({ "word": SECRET[0] }));
        scene.create(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": held })).await;
        assert!(scene.find(&SECRETS, "fault-0").await.is_some());
        let host = start(&mut scene, &folder).await;
        serves(&scene, "fault-0").await;
        until_waiting(&host, &folder, "faulty", &reworded(folder.original(), WORKS, "this revision peeks")).await;
        let page = report(&host, &[]);
        assert!(page.contains("1 would change") && page.contains("hidden"), "{page}");
        hides_secret(&page);
    });
}

/// Returns the text with the least contrast, and that contrast, as by the Web Content Accessibility Guidelines 2.
const LEAST_CONTRAST: &str = r"(() => {
    const channels = colour => colour.match(/[\d.]+/g).map(Number);
    const luminance = colour => channels(colour).slice(0, 3).map(value => value / 255)
        .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = element => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            if ((channels(colour)[3] ?? 1) === 1) return colour;
        }
        throw new Error('there is no background');
    };
    const texts = [...document.body.querySelectorAll('*')].filter(element =>
        [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim()));
    const contrasts = texts.map(element => {
        const [one, other] = [getComputedStyle(element).color, behind(element)].map(luminance).sort((a, b) => b - a);
        return { contrast: (one + 0.05) / (other + 0.05), text: element.textContent.slice(0, 80) };
    });
    return { texts: texts.length, ...contrasts.sort((a, b) => a.contrast - b.contrast)[0] };
})()";

#[test]
fn a_browser_shows_the_page_on_a_narrow_screen_in_both_schemes_and_runs_and_asks_for_nothing() {
    run(async {
        let folder = Folder::of_memcached();
        let (_scene, host, _faulty) = served("browsed", &folder).await;
        until_waiting(&host, &folder, "memcached", &reworded(folder.original(), WORDS, EVIL)).await;
        let written = TempDir::new().expect("a folder");
        let file = written.path().join("report.html");
        std::fs::write(&file, report(&host, &[])).expect("a page");
        let mut browser = Browser::start();
        let mut backgrounds = Vec::new();
        for scheme in ["light", "dark"] {
            for width in [400, 1200] {
                browser.show(&file, width, scheme);
                let sizes =
                    browser.value("[document.documentElement.scrollWidth, innerWidth, document.body.offsetHeight]");
                let size = |at: usize| sizes[at].as_u64().expect("a number");
                assert_eq!(size(1), u64::from(width), "the window has the width that was asked for");
                assert!(size(0) <= size(1) && size(2) > 500, "{scheme}, {width}: {sizes}");
                let least = browser.value(LEAST_CONTRAST);
                let contrast = least["contrast"].as_f64().expect("a number");
                assert!(contrast >= 4.5 && least["texts"].as_u64() > Some(20), "{scheme}: {least:#}");
                assert_eq!(browser.value("document.querySelectorAll('script, img, iframe, link').length"), 0);
                let text = browser.value("document.body.innerText");
                let text = text.as_str().expect("a text");
                for words in [EVIL, &"m".repeat(20), "Waits for an approval"] {
                    assert!(text.contains(words), "{words}: {text}");
                }
                assert_eq!(browser.complaints(), Vec::<&Value>::new());
                assert_eq!(browser.requests(), [format!("file://{}", file.display())]);
                backgrounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
            }
        }
        assert_ne!(backgrounds[0], backgrounds[2], "the dark scheme is another");
    });
}

#[test]
fn what_is_wrong_with_a_page_is_found_in_a_browser() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("wrong.html");
    let wrong = "<!doctype html><html><body style='background: #fff'><p style='color: #999; width: 900px'>faint and wide\
                 <img src='missing.png'><script>console.error('loud'); throw new Error('thrown')</script>";
    std::fs::write(&file, wrong).expect("a page");
    let mut browser = Browser::start();
    browser.show(&file, 400, "light");
    assert_eq!(browser.value("document.documentElement.scrollWidth > innerWidth"), true);
    let least = browser.value(LEAST_CONTRAST)["contrast"].as_f64().expect("a number");
    assert!((2.0..4.5).contains(&least), "{least}");
    assert!(browser.complaints().len() >= 2, "{:#?}", browser.complaints());
    assert_eq!(browser.requests().len(), 2, "{:?}", browser.requests());
}
