//! The image itself, as far as it can be looked at without a container engine: what the Dockerfile and the compose
//! file say, and that the binary understands the variables that the image sets.

use crate::support::{command, get, next_port};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

const DOCKERFILE: &str = include_str!("../../../../Dockerfile");
const COMPOSE: &str = include_str!("../../../../compose.yaml");

/// The instructions of the last stage, continued lines joined.
fn instructions() -> Vec<String> {
    let text = DOCKERFILE.replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let lines: Vec<_> = lines.map(str::to_owned).collect();
    let last = lines.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    lines[last..].to_vec()
}

fn instruction(word: &str) -> Vec<String> {
    let of = |line: &String| line.strip_prefix(word)?.strip_prefix(' ').map(str::to_owned);
    instructions().iter().filter_map(of).collect()
}

/// What `ENV` sets.
pub(crate) fn variables() -> Vec<(String, String)> {
    let pairs = instruction("ENV").join(" ");
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.into(), value.into()));
    pairs.split_whitespace().map(|text| pair(text).unwrap()).collect()
}

fn variable(name: &str) -> String {
    let found = variables().into_iter().find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("the image does not set {name}")).1
}

#[test]
fn the_image_has_the_ports_the_volume_and_the_user() {
    assert_eq!(instruction("FROM"), ["scratch"], "nothing but the binary");
    assert_eq!(instruction("EXPOSE"), ["8081 8080 1234"]);
    assert_eq!(variable("ARMILLA_HEALTH_PORT"), "8080");
    assert_eq!(variable("ARMILLA_EXPLORER_PORT"), "1234");
    assert_eq!(instruction("VOLUME"), [variable("ARMILLA_DATA")]);
    assert_eq!(variable("ARMILLA_DATA"), "/data");
    let user = &instruction("USER")[0];
    let (user, group) = user.split_once(':').unwrap();
    assert!(user.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0, "not root");
    let data = instruction("COPY").into_iter().find(|line| line.ends_with("/data /data")).unwrap();
    assert!(data.contains(&format!("--chown={user}:{group}")), "the volume is the user's: {data}");
    assert_eq!(instruction("ENTRYPOINT"), [r#"["/armilla"]"#]);
    assert!(instruction("HEALTHCHECK")[0].ends_with(r#"CMD ["/armilla", "ready"]"#));
    let limit = "-lt 25000000";
    assert!(DOCKERFILE.contains(limit), "the build fails when the binary is too large");
}

/// With the published key, its ports are for this machine alone.
#[test]
fn the_compose_file_publishes_on_this_machine_alone() {
    for port in ["8081", "8080"] {
        assert!(COMPOSE.contains(&format!(r#"- "127.0.0.1:{port}:{port}""#)), "{port}");
    }
    assert_eq!(COMPOSE.matches("127.0.0.1:").count(), 2);
    assert!(COMPOSE.contains(&format!("- data:{}", variable("ARMILLA_DATA"))));
}

/// All variables of the image at once, with other numbers for its ports and another folder for its volume.
#[test]
fn the_variables_of_the_image_start_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let explorer = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, explorer_text) = (next_port(), explorer.to_string());
    let mut command = command(&[], &[], port);
    command.env_remove("ARMILLA_IN_MEMORY");
    for (name, value) in variables() {
        command.env(name, value);
    }
    command.env("ARMILLA_HEALTH_PORT", (port + 1).to_string());
    command.env("ARMILLA_EXPLORER_PORT", explorer_text).env("ARMILLA_DATA", &data);
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<_> = lines.take_while(|line| line != "Started").collect();
    let answers = [(port, "/ready"), (port + 1, "/ready"), (explorer, "/_explorer/")];
    let statuses = answers.map(|(port, path)| get(port, path).0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(statuses, [200; 3], "{said:?}");
    assert!(folder.path().join("data/format").is_file());
}
