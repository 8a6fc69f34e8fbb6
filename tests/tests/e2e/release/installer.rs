//! `install.sh`: from an ordinary server, what it refuses, and that what was installed stays then.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::release::{VERSION, artefact, release};
use hotshoe_tests::tool;
use tempfile::TempDir;

use super::{done, said};

/// A copy of the release on a server, and the home of a user.
struct Download {
    folder: TempDir,
    home: TempDir,
    address: String,
}

impl Download {
    /// Copies what the installer reads, and serves it.
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        for file in [artefact(&format!("hotshoe-{VERSION}"), ".tar.gz"), release().join("SHA256SUMS")] {
            fs::copy(&file, folder.path().join(file.file_name().expect("a name"))).expect("a copy");
        }
        let address = serve(folder.path().to_owned());
        Self { folder, home: TempDir::new().expect("a folder"), address }
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join(artefact(&format!("hotshoe-{VERSION}"), ".tar.gz").file_name().expect("a name"))
    }

    fn program(&self) -> PathBuf {
        self.home.path().join(".local/bin/hotshoe")
    }

    /// Returns the installer, for a user with an empty home.
    fn installer(&self, options: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.arg(release().join("install.sh")).args(options).current_dir(&self.home).env("HOME", self.home.path());
        for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs the installer from the server.
    fn install(&self, options: &[&str]) -> Output {
        self.installer(&[&["--from", &self.address], options].concat()).output().expect("sh runs")
    }

    /// Puts a program in the place of the one that is to be installed.
    fn install_before(&self) {
        fs::create_dir_all(self.program().parent().expect("a folder")).expect("a folder");
        fs::write(self.program(), "before").expect("a file");
    }

    /// Checks that nothing was installed and that this was said, and returns it.
    fn is_as_before(&self, output: &Output) -> String {
        let said = said(output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let folder = self.program();
        let folder = folder.parent().expect("a folder");
        let names: Vec<_> =
            fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("a file").file_name()).collect();
        assert_eq!(names, ["hotshoe"], "nothing is left beside it");
        assert_eq!(fs::read_to_string(self.program()).expect("the program"), "before");
        assert!(said.contains("nothing was installed") && said.contains("next:"), "{said}");
        said
    }

    /// Writes the sums anew, as a release does.
    fn sum(&self) {
        let digest = Digest::of(&fs::read(self.archive()).expect("the archive")).full();
        let name = self.archive().file_name().expect("a name").to_str().expect("a name in UTF-8").to_owned();
        fs::write(self.folder.path().join("SHA256SUMS"), format!("{digest}  {name}\n")).expect("the sums");
    }

    /// Cuts the end off the archive.
    fn truncate(&self) {
        let archive = File::options().write(true).open(self.archive()).expect("the archive");
        let length = archive.metadata().expect("its length").len();
        archive.set_len(length / 2).expect("a shorter file");
    }
}

/// Serves the files of a folder by HTTP until this process ends, and returns the address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that has gone gets no answer.
            drop(answer(client, &folder));
        }
    });
    address
}

fn answer(mut client: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let name = request.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('/');
    match fs::read(folder.join(name)) {
        Ok(bytes) => {
            write!(client, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len())?;
            client.write_all(&bytes)
        }
        Err(_) => client.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}

#[test]
fn the_program_is_downloaded_checked_and_put_where_it_is_said() {
    let download = Download::new();
    let bin = download.home.path().join("bin");
    let output = download.install(&["--version", VERSION, "--to", bin.to_str().expect("UTF-8")]);
    let said = said(&output);
    assert!(output.status.success() && said.contains(&format!("as {}/hotshoe", bin.display())), "{said}");
    assert!(said.contains("it is not on your PATH yet"), "{said}");
    let version = done(Command::new(bin.join("hotshoe")).arg("version"));
    assert!(version.starts_with(&format!("hotshoe {VERSION} ")), "{version}");
}

#[test]
fn without_curl_it_is_downloaded_by_wget() {
    let download = Download::new();
    let bin = TempDir::new().expect("a folder");
    let needed = "chmod cp cut grep gzip mkdir mktemp mv rm sed sh sha256sum sort tail tar tr uname";
    for program in needed.split(' ') {
        let found = done(Command::new("sh").args(["-c", &format!("command -v {program}")]));
        symlink(found.trim_end(), bin.path().join(program)).expect("a link");
    }
    let wget = done(Command::new("which").arg(tool("registry", "wget")));
    symlink(wget.trim_end(), bin.path().join("wget")).expect("a link");
    let output = download.installer(&["--from", &download.address]).env("PATH", bin.path()).output().expect("sh runs");
    assert!(output.status.success() && download.program().exists(), "{}", said(&output));
}

#[test]
fn an_archive_with_a_wrong_checksum_is_refused_and_what_was_there_stays() {
    let download = Download::new();
    download.install_before();
    let mut bytes = fs::read(download.archive()).expect("the archive");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(download.archive(), &bytes).expect("another archive");
    let said = download.is_as_before(&download.install(&[]));
    assert!(
        said.contains("is not the file of the release: its SHA-256 is ") && said.contains("do not use it"),
        "{said}"
    );
}

#[test]
fn a_truncated_archive_is_refused_and_what_was_there_stays() {
    let download = Download::new();
    download.install_before();
    download.truncate();
    let said = download.is_as_before(&download.install(&[]));
    assert!(said.contains("is not the file of the release"), "{said}");
    // Released in this state.
    download.sum();
    let said = download.is_as_before(&download.install(&[]));
    assert!(said.contains("cannot be unpacked"), "{said}");
}

#[test]
fn a_program_that_does_not_run_is_not_installed() {
    let download = Download::new();
    download.install_before();
    let name = download.archive().file_name().expect("a name").to_str().expect("UTF-8").replace(".tar.gz", "");
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join(&name)).expect("a folder");
    fs::write(folder.path().join(&name).join("hotshoe"), "#!/bin/sh\nexit 1\n").expect("a program");
    done(Command::new("tar").arg("-czf").arg(download.archive()).arg("-C").arg(folder.path()).arg(&name));
    download.sum();
    let said = download.is_as_before(&download.install(&[]));
    assert!(said.contains("does not run here"), "{said}");
}

#[test]
fn a_platform_that_the_release_lacks_is_named_with_those_that_it_has() {
    let download = Download::new();
    download.install_before();
    let bin = TempDir::new().expect("a folder");
    let uname = bin.path().join("uname");
    fs::write(&uname, "#!/bin/sh\n[ \"$1\" = -s ] && echo Plan9 || echo mips\n").expect("a program");
    fs::set_permissions(&uname, PermissionsExt::from_mode(0o755)).expect("a program that runs");
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default());
    let output = download.installer(&["--from", &download.address]).env("PATH", path).output().expect("sh runs");
    let said = download.is_as_before(&output);
    let archive = download.archive().file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    assert!(said.contains("Plan9 on mips") && said.contains(&archive), "{said}");
}

#[test]
fn a_version_and_a_place_that_have_nothing_are_named() {
    let download = Download::new();
    download.install_before();
    let said = download.is_as_before(&download.install(&["--version", "9.9.9"]));
    assert!(said.contains("there is no hotshoe 9.9.9"), "{said}");
    let nowhere = download.installer(&["--from", "http://127.0.0.1:1"]).output().expect("sh runs");
    let said = download.is_as_before(&nowhere);
    assert!(said.contains("SHA256SUMS cannot be had") && said.contains("http://127.0.0.1:1"), "{said}");
}

#[test]
fn what_it_does_not_know_is_refused_with_its_usage() {
    let download = Download::new();
    for options in [&["--prefix", "/x"][..], &["--to"], &["now"], &[]] {
        let output = download.installer(options).output().expect("sh runs");
        let said = said(&output);
        assert!(output.status.code() == Some(2) && said.contains("Usage: install.sh"), "{options:?}: {said}");
    }
    let help = done(&mut download.installer(&["--help"]));
    assert!(help.contains("--from FOLDER|URL") && help.contains("Exit codes:"), "{help}");
    assert!(!download.program().exists());
}
