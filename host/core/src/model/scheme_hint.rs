//! Explains the error of a client that spoke TLS to a server of plain HTTP, which the TLS library words in terms of
//! records. Pure.

/// What rustls says of an answer that is no TLS.
const NO_TLS: &str = "InvalidContentType";

/// Adds to the text of an error what it means, if the server answered in plain HTTP.
pub fn explained(error: String) -> String {
    if error.contains(NO_TLS) {
        return format!("{error}: the server answers in plain HTTP, and not by TLS");
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_tls_is_explained_and_other_errors_stay_as_they_are() {
        let said = explained("received corrupt message of type InvalidContentType".to_owned());
        assert!(said.contains("InvalidContentType: the server answers in plain HTTP"), "{said}");
        assert_eq!(explained("connection refused".to_owned()), "connection refused");
    }
}
