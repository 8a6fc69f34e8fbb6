//! The container that the Pods of a new operator run, with the options of Kubebuilder's deploy-image plugin.

/// The image that is used if none is named: it does nothing, runs on every cluster, and not as root.
const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// The container of a new operator's Pods.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Container {
    /// The image that the Pods run; plugin.yaml has it, and may have another later
    #[arg(long, value_name = "IMAGE", default_value = PAUSE, value_parser = image)]
    pub(super) image: String,
    /// The command of the container, with commas between its arguments [default: that of the image]
    #[arg(long, value_name = "COMMAND", value_delimiter = ',', value_parser = argument, requires = "image")]
    pub(super) image_container_command: Vec<String>,
    /// The port that the container listens on; a field of the kind with this default
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires = "image")]
    pub(super) image_container_port: Option<u16>,
    /// The number of the user that the container runs as; the Pods never run as root [default: that of the image]
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647), requires = "image")]
    pub(super) run_as_user: Option<u32>,
}

/// Checks the reference of an image, which is put into YAML and code.
fn image(text: &str) -> Result<String, &'static str> {
    let has_valid_start = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let is_valid = has_valid_start
        && text.len() <= 512
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte));
    is_valid.then(|| text.to_owned()).ok_or("an image is named as in registry.example.com/team/cache:1.2.3")
}

/// Checks an argument of a command. It is put between quotes, so it may have any visible character.
fn argument(text: &str) -> Result<String, &'static str> {
    let is_valid = !text.is_empty() && text.len() <= 1024 && !text.chars().any(char::is_control);
    is_valid.then(|| text.to_owned()).ok_or("a command is arguments separated by commas, such as memcached,-m=64,-v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_images_and_arguments_are_refused() {
        for good in ["nginx", "nginx:1.20", "localhost:5000/a/b_c:v1.2-x", "a@sha256:0123456789abcdef"] {
            assert!(image(good).is_ok(), "{good}");
        }
        for bad in ["", " nginx", "nginx latest", "ng\"inx", "nginx\n", "-a", "ngïnx", "{{ a }}", &"a".repeat(513)] {
            assert!(image(bad).is_err(), "{bad}");
        }
        assert!(argument("-m=64").is_ok() && argument("say \"{{ hello }}\"").is_ok());
        assert!(argument("").is_err() && argument("a\nb").is_err() && argument("\u{7}").is_err());
    }
}
