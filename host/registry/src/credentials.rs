//! Credentials for registries: what `docker login` wrote, or a Secret of the type `kubernetes.io/dockerconfigjson`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};

use crate::error::RegistryError;
use crate::reference::ImageRef;

/// The server under which Docker stores the credentials for Docker Hub.
const DOCKER_HUB: &str = "index.docker.io/v1/";
/// Some tools write base64 without its padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Credentials for registries.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Credentials {
    /// The logins, by a registry or by a registry and the beginning of a repository.
    auths: BTreeMap<String, Login>,
    /// Programs that know credentials. None is run for a Secret: its author could choose which program the host runs.
    #[serde(skip)]
    helpers: Helpers,
}

/// A user and the password.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

#[derive(Clone, Default)]
struct Helpers {
    of_registry: BTreeMap<String, String>,
    of_all: Option<String>,
}

/// A Docker configuration, as far as it is needed here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// The answer of a credential helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

impl Credentials {
    /// Reads the user's credentials from `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`; none if there is no
    /// such file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_user() -> Result<Self, RegistryError> {
        let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker")));
        let Some(path) = folder.map(|folder| folder.join("config.json")) else { return Ok(Self::default()) };
        let named = |why: String| RegistryError::InvalidCredentials(format!("{}: {why}", path.display()));
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(named(error.to_string())),
        };
        let file: File = serde_json::from_slice(&bytes).map_err(|error| named(error.to_string()))?;
        let helpers = Helpers { of_registry: file.cred_helpers.clone(), of_all: file.creds_store.clone() };
        Ok(Self { auths: logins(file).map_err(named)?, helpers })
    }

    /// Reads the value of `.dockerconfigjson` in a Secret.
    ///
    /// # Errors
    /// When the value is no Docker configuration.
    pub fn of_secret(value: &[u8]) -> Result<Self, RegistryError> {
        // Without the parser's message, which may quote a password.
        let file = serde_json::from_slice(value).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            RegistryError::InvalidCredentials(format!(
                "the Secret's .dockerconfigjson is no Docker configuration: {place}"
            ))
        })?;
        Ok(Self { auths: logins(file).map_err(RegistryError::InvalidCredentials)?, helpers: Helpers::default() })
    }

    /// Returns the credentials that an image may need, so that no others are passed to another process.
    pub(super) fn only_of(&self, image: &ImageRef) -> Self {
        let registry = server_of(image.registry());
        let path = format!("{registry}/{}", image.repository());
        let is_above =
            |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let auths = self.auths.iter().filter(|(name, _)| is_above(name));
        Self {
            auths: auths.map(|(name, login)| (name.clone(), login.clone())).collect(),
            helpers: self.helpers.clone(),
        }
    }

    /// Returns the login for an image: that of its repository, or of a folder above it, or of its registry.
    pub(super) fn of_image(&self, image: &ImageRef) -> Result<Option<Login>, RegistryError> {
        let registry = server_of(image.registry());
        let path = format!("{registry}/{}", image.repository());
        let mut above = path.as_str();
        loop {
            if let Some(login) = self.auths.get(above) {
                return Ok(Some(login.clone()));
            }
            match above.rsplit_once('/') {
                Some((shorter, _)) => above = shorter,
                None => return self.helpers.ask(&registry),
            }
        }
    }
}

/// Shows no passwords, which must not get into a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.auths.keys()).finish()
    }
}

impl Helpers {
    /// Asks the program that knows the credentials for this registry, if there is one.
    fn ask(&self, registry: &str) -> Result<Option<Login>, RegistryError> {
        let Some(helper) = self.of_registry.get(registry).or(self.of_all.as_ref()) else {
            return Ok(None);
        };
        let program = format!("docker-credential-{helper}");
        let failed = |why: String| RegistryError::InvalidCredentials(format!("{program}: {why}"));
        let server = if registry == "docker.io" { format!("https://{DOCKER_HUB}") } else { registry.to_owned() };
        let answer = ask(&program, &server).map_err(|error| failed(error.to_string()))?;
        let Some(answer) = answer else { return Ok(None) };
        let Helped { username, secret } = serde_json::from_slice(&answer)
            .map_err(|_| failed("its answer is not that of a credential helper".to_owned()))?;
        login(username, secret).map(Some).map_err(failed)
    }
}

/// Runs a credential helper. Returns nothing for a server that it does not know: it exits with an error then.
fn ask(program: &str, server: &str) -> std::io::Result<Option<Vec<u8>>> {
    let mut child =
        Command::new(program).arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(server.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    Ok(output.status.success().then_some(output.stdout))
}

fn logins(file: File) -> Result<BTreeMap<String, Login>, String> {
    let logins = file.auths.into_iter().map(|(server, auth)| {
        let login = read(auth).map_err(|why| format!("auths[{server:?}]: {why}"))?;
        Ok(login.map(|login| (server_of(&server), login)))
    });
    logins.filter_map(Result::transpose).collect()
}

/// Reads an entry, which is empty where a credential helper has the credentials.
fn read(Auth { auth, username, password }: Auth) -> Result<Option<Login>, String> {
    if let (Some(user), Some(password)) = (username, password) {
        return login(user, password).map(Some);
    }
    let Some(auth) = auth.filter(|auth| !auth.is_empty()) else { return Ok(None) };
    let decoded = BASE64.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or("auth is not base64 of USER:PASSWORD")?;
    let (user, password) = decoded.split_once(':').ok_or("auth is not base64 of USER:PASSWORD")?;
    login(user.to_owned(), password.to_owned()).map(Some)
}

fn login(user: String, password: String) -> Result<Login, String> {
    match user.as_str() {
        "<token>" => {
            Err("it is a token of an identity, which is not supported; log in with a user and an access token"
                .to_owned())
        }
        _ => Ok(Login { user, password }),
    }
}

/// Returns the name of a server as it stands in references: without a scheme and without the version of the API.
fn server_of(name: &str) -> String {
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    if name == DOCKER_HUB || name == "index.docker.io" {
        return "docker.io".to_owned();
    }
    let name = name.trim_end_matches('/');
    name.strip_suffix("/v1").or_else(|| name.strip_suffix("/v2")).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &str, image: &str) -> Option<Login> {
        Credentials::of_secret(config.as_bytes()).unwrap().of_image(&image.parse().unwrap()).unwrap()
    }

    fn basic(user: &str, password: &str) -> Option<Login> {
        Some(Login { user: user.to_owned(), password: password.to_owned() })
    }

    #[test]
    fn the_credentials_of_the_longest_path_are_used() {
        let config = r#"{"auths": {
            "https://ghcr.io": {"auth": "YTpiOmM="},
            "ghcr.io/org/team": {"username": "u", "password": "p"},
            "https://index.docker.io/v1/": {"auth": "aHViOnB3"},
            "quay.io": {}
        }}"#;
        assert_eq!(of(config, "oci://ghcr.io/org/x:1"), basic("a", "b:c"));
        assert_eq!(of(config, "oci://ghcr.io/org/team/x:1"), basic("u", "p"));
        assert_eq!(of(config, "oci://ghcr.io/org/team2/x:1"), basic("a", "b:c"));
        assert_eq!(of(config, "oci://docker.io/x"), basic("hub", "pw"));
        assert_eq!(of(config, "oci://quay.io/x"), None);
        assert_eq!(of(config, "oci://ghcr.io.example.org/x"), None);
    }

    #[test]
    fn credentials_for_other_registries_are_not_handed_on() {
        let config = r#"{"auths": {
            "ghcr.io": {"username": "a", "password": "b"},
            "ghcr.io/org": {"username": "c", "password": "d"},
            "ghcr.io/or": {"username": "e", "password": "f"},
            "quay.io": {"username": "g", "password": "h"}
        }}"#;
        let all = Credentials::of_secret(config.as_bytes()).unwrap();
        let image: ImageRef = "oci://ghcr.io/org/x:1".parse().unwrap();
        let only = all.only_of(&image);
        assert_eq!(format!("{only:?}"), r#"{"ghcr.io", "ghcr.io/org"}"#);
        assert_eq!(only.of_image(&image).unwrap(), all.of_image(&image).unwrap());
    }

    #[test]
    fn a_secret_runs_no_program() {
        let config = r#"{"credsStore": "x", "credHelpers": {"ghcr.io": "x/../../../bin/sh"}}"#;
        assert_eq!(of(config, "oci://ghcr.io/x"), None);
    }

    #[test]
    fn the_error_of_unreadable_credentials_shows_no_secret() {
        for (config, why) in [
            ("{\"auths\": {\"ghcr.io\": {\"auth\": \"c2VjcmV0\"}}}", "USER:PASSWORD"),
            ("{\"auths\": {\"ghcr.io\": {\"auth\": 7}, secret", "line 1"),
            ("secret", "line 1"),
            ("", "line 1"),
        ] {
            let error = Credentials::of_secret(config.as_bytes()).unwrap_err();
            assert_eq!(error.reason(), "InvalidCredentials");
            assert!(error.to_string().contains(why), "{error}");
            assert!(!error.to_string().replace("Secret", "").contains("secret\""), "{error}");
        }
    }

    #[test]
    fn no_password_is_printed() {
        let config = Credentials::of_secret(br#"{"auths": {"ghcr.io": {"username": "u", "password": "hunter2"}}}"#);
        assert_eq!(format!("{:?}", config.unwrap()), r#"{"ghcr.io"}"#);
    }
}
