//! Pulling by the host, in a confined process.

use hotshoe_core::model::limits::COMPONENT_BYTES;
use hotshoe_registry::{Access, Credentials, ImageRef, Pull, Pulled, Puller, RegistryError, Verify};
use hotshoe_tests::Registry;
use hotshoe_tests::host::program;
use hotshoe_tests::registry::{LOGIN, Start};
use serde_json::json;

use super::{Desk, component, other_component};

/// The maximum size of a component in these tests, in bytes.
const MAX_COMPONENT_BYTES: u64 = 1 << 20;

fn puller() -> Puller {
    Puller::new(program())
}

fn image(text: &str) -> ImageRef {
    text.parse().expect("a reference")
}

async fn pull(image: &ImageRef, access: &Access) -> Result<Pulled, RegistryError> {
    let pull = Pull { image: image.clone(), access: access.clone(), most: MAX_COMPONENT_BYTES, verify: None };
    puller().pull(&pull).await
}

/// The pull secret of an account of this registry.
fn pull_secret(registry: &str, (username, password): (&str, &str)) -> Credentials {
    let config = json!({ "auths": { registry: { "username": username, "password": password } } });
    Credentials::of_secret(config.to_string().as_bytes()).expect("a pull secret")
}

#[test]
fn a_tag_is_followed_and_what_is_pinned_stays_until_it_is_deleted() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let (tag, access) = (image(&registry.image("a:1")), Access::default());
    hotshoe_tests::run(async {
        let missing = puller().resolve(&tag, &access).await.expect_err("nothing was pushed");
        assert_eq!(missing.reason(), "ImageNotFound", "{missing}");

        desk.hotshoe(&["push", "a.wasm", &tag.to_string()]).done();
        let first = puller().resolve(&tag, &access).await.expect("a digest");
        let pulled = pull(&tag, &access).await.expect("a component");
        assert_eq!((pulled.digest, pulled.component.bytes()), (first, component().as_slice()));

        desk.write("other.wasm", other_component());
        desk.hotshoe(&["push", "other.wasm", &tag.to_string()]).done();
        let second = puller().resolve(&tag, &access).await.expect("a digest");
        assert_ne!(second, first, "the tag has moved");
        let pinned = tag.pinned(first);
        assert_eq!(puller().resolve(&pinned, &access).await, Ok(first), "a digest is not asked about");
        assert_eq!(pull(&pinned, &access).await, Ok(pulled));

        registry.delete("a", first);
        let gone = pull(&pinned, &access).await.expect_err("it was deleted");
        assert_eq!(gone.reason(), "ImageNotFound", "{gone}");
        assert!(gone.to_string().contains(&pinned.to_string()), "{gone}");
    });
}

#[test]
fn a_component_of_the_default_limit_fits_into_the_process_that_pulls_and_one_more_byte_does_not() {
    let registry = Registry::start();
    let most = COMPONENT_BYTES.default.0;
    // Any bytes will do, since a component is not inspected before it is loaded.
    let mut bytes = component();
    bytes.resize(usize::try_from(most).expect("a length"), 7);
    let put = |tag: &str, bytes: &[u8]| {
        let config = registry.blob("a", "application/vnd.wasm.config.v0+json", b"{}");
        let layer = registry.blob("a", "application/wasm", bytes);
        let kind = "application/vnd.oci.image.manifest.v1+json";
        registry.put("a", tag, &json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] }));
        Pull { image: image(&registry.image(&format!("a:{tag}"))), access: Access::default(), most, verify: None }
    };
    hotshoe_tests::run(async {
        let pulled = puller().pull(&put("largest", &bytes)).await.expect("a component");
        assert!(pulled.component.bytes() == bytes);
        bytes.push(7);
        let error = puller().pull(&put("larger", &bytes)).await.expect_err("it is too large");
        assert_eq!(error.reason(), "ComponentTooLarge", "{error}");
    });
}

#[test]
fn a_pull_secret_and_a_ca_bundle_open_a_private_registry() {
    let registry = Registry::with(Start { login: true, names: &["localhost"] });
    let (desk, address) = (Desk::new(), format!("localhost:{}", registry.port()));
    let tag = image(&format!("oci://{address}/a:1"));
    let authority = registry.file("ca.pem");
    desk.write(
        "config.json",
        json!({ "auths": { &address: { "username": LOGIN.0, "password": LOGIN.1 } } }).to_string(),
    );
    desk.hotshoe(&["push", "a.wasm", &tag.to_string(), "--registry-ca", &authority.display().to_string()]).done();

    let authorities = Some(std::fs::read_to_string(&authority).expect("an authority"));
    let access = |credentials| Access { credentials, authorities: authorities.clone(), ..Access::default() };
    hotshoe_tests::run(async {
        let right = access(pull_secret(&address, LOGIN));
        assert_eq!(pull(&tag, &right).await.expect("a component").component.bytes(), component());
        for wrong in
            [Credentials::default(), pull_secret("other.registry.test", LOGIN), pull_secret(&address, ("a", "b"))]
        {
            let error = pull(&tag, &access(wrong)).await.expect_err("no access");
            assert_eq!(error.reason(), "Unauthorized", "{error}");
        }
        let stranger = Registry::with(Start { names: &["localhost"], ..Start::default() });
        let other = std::fs::read_to_string(stranger.file("ca.pem")).expect("an authority");
        let error = pull(&tag, &Access { authorities: Some(other), ..right }).await.expect_err("an unknown authority");
        assert_eq!(error.reason(), "RegistryUnreachable", "{error}");
    });
}

#[test]
fn a_component_is_pulled_only_if_a_required_signer_signed_it() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let tag = image(&registry.image("a:1"));
    ["ours", "theirs"].iter().for_each(|key| desk.key(key));
    let digest = desk.push(&registry);
    let by = |keys: &[&str]| {
        let keys = keys.iter().map(|key| String::from_utf8(desk.read(&format!("{key}.pub"))).expect("PEM")).collect();
        Pull {
            image: tag.clone(),
            access: Access::default(),
            most: MAX_COMPONENT_BYTES,
            verify: Some(Verify { keys, ..Verify::default() }),
        }
    };
    hotshoe_tests::run(async {
        let reason = async |keys: &[&str]| puller().pull(&by(keys)).await.map(drop).map_err(|error| error.reason());
        assert_eq!(reason(&["ours"]).await, Err("SignatureMissing"));
        super::signatures::sign_simply(&desk, &registry, "ours", &digest, &digest);
        assert_eq!(reason(&["theirs"]).await, Err("SignatureInvalid"));
        assert_eq!(reason(&[]).await, Err("InvalidSigner"), "an empty list is no leave");
        assert_eq!(reason(&["theirs", "ours"]).await, Ok(()));
    });
}
