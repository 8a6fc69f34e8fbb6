//! The name of an image, such as `registry.example.com:5000/nginx:1.27`.

/// The parts of a name.
pub(crate) struct Image<'a> {
    repository: &'a str,
    tag: Option<&'a str>,
    has_digest: bool,
}

impl<'a> Image<'a> {
    pub(crate) fn of(name: &'a str) -> Self {
        let (tagged, has_digest) = name.split_once('@').map_or((name, false), |(tagged, _)| (tagged, true));
        // A colon before the last slash is that of a port.
        let tag = tagged.rsplit('/').next().and_then(|last| last.rsplit_once(':')).map(|(_, tag)| tag);
        let without_tag = |tag| tagged.strip_suffix(tag)?.strip_suffix(':');
        Self { repository: tag.and_then(without_tag).unwrap_or(tagged), tag, has_digest }
    }

    /// Returns whether a registry may have a repository of this name.
    pub(crate) fn is_valid(&self) -> bool {
        let may_be_there = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "._-/:".contains(one);
        !self.repository.is_empty() && self.repository.chars().all(may_be_there)
    }

    pub(crate) fn lacks_tag(&self) -> bool {
        self.tag.is_none() && !self.has_digest
    }

    /// Returns whether the name means one image, or those of one version, as long as nothing is moved on purpose.
    pub(crate) fn names_version(&self) -> bool {
        self.has_digest || self.tag.is_some_and(|tag| tag != "latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_behind_the_last_slash() {
        for (name, repository, tag) in [
            ("nginx", "nginx", None),
            ("nginx:1.27", "nginx", Some("1.27")),
            ("localhost:5000/nginx", "localhost:5000/nginx", None),
            ("localhost:5000/nginx:1.27@sha256:aa", "localhost:5000/nginx", Some("1.27")),
        ] {
            let image = Image::of(name);
            assert_eq!((image.repository, image.tag), (repository, tag), "{name}");
            assert!(image.is_valid(), "{name}");
        }
    }

    #[test]
    fn an_image_of_a_version_has_a_tag_other_than_latest_or_a_digest() {
        assert!(
            ["nginx:1.27", "nginx@sha256:aa", "nginx:latest@sha256:aa"].map(Image::of).iter().all(Image::names_version)
        );
        assert!(!["nginx", "nginx:latest"].map(Image::of).iter().any(Image::names_version));
        assert!(Image::of("a:1/nginx").lacks_tag() && !Image::of("nginx@sha256:aa").lacks_tag());
    }

    #[test]
    fn no_repository_has_capitals_or_spaces_in_its_name() {
        for name in ["NGINX", "nginx 1.27", "", ":1.27"] {
            assert!(!Image::of(name).is_valid(), "{name}");
        }
    }
}
