"""The files in which a project declares its services."""

import contextlib
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import ConfigInvalid
from outlive.core.identity import is_name
from outlive.extensions.services.declaration import Backoff, ReadyWhen, ServiceRequest
from outlive.extensions.services.services_file import parse_env_file, parse_procfile, parse_services
from outlive.operations.start import LimitsRequest

_WHOLE = """
environment = { LOG = "info", LEVEL = "1" }
env_file = "shared.env"

[services.db]
command = ["postgres", "-D", "data"]
folder = "db"
ready = { port = 5432 }
stop_signal = "INT"
grace = "1m"
limits = { memory = "2G", cpu = "10m", files = 64 }

[services.web]
command = "python -m http.server $PORT"
environment = { PORT = "8000", LEVEL = "2" }
env_file = ["~/secret.env", "/etc/more.env"]
after = "db"
restart = "on-failure"
max_restarts = 5

[services.web.ready]
http = "http://localhost:8000/"

[services.web.backoff]
first = "500ms"
most = 30
"""


@pytest.mark.promise("V.file")
def test_a_whole_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h/me")
    services = parse_services(_WHOLE, folder="/p")
    assert list(services) == ["db", "web"]
    assert services["db"] == ServiceRequest(
        command=("postgres", "-D", "data"),
        folder="/p/db",
        environment={"LOG": "info", "LEVEL": "1"},
        env_file=("/p/shared.env",),
        ready=ReadyWhen(port=5432),
        stop_signal="INT",
        grace=60.0,
        limits=LimitsRequest(memory=2 * 1024**3, cpu=600, files=64),
    )
    assert services["web"] == ServiceRequest(
        command="python -m http.server $PORT",
        folder="/p",
        environment={"LOG": "info", "LEVEL": "2", "PORT": "8000"},
        env_file=("/p/shared.env", "/h/me/secret.env", "/etc/more.env"),
        ready=ReadyWhen(http="http://localhost:8000/"),
        after=("db",),
        restart="on-failure",
        max_restarts=5,
        backoff=Backoff(first=0.5, most=30.0),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[services.web]\ncommand = 'a'\nrestrat = 'no'", ["line 3", "services.web", "'restrat'", "'restart'"]),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ("[services.web]\ncommand = 'a'\nready = { prot = 1 }", ["line 3", "services.web.ready", "'prot'", "'port'"]),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ("[services.web.ready]\nhtpp = 'x'", ["line 2", "'htpp'", "'http'"]),
        ("[service.web]\ncommand = 'a'", ["line 1", "'service'", "'services'"]),
        ("[services.web]\n\nfolder = 'a'", ["line 1", "services.web", "command"]),
        ("[services.web]\ncommand = 7", ["line 2", "services.web", "command", "is needed"]),
        ("[services.web]\ncommand = 'a'\nlimits = { memory = 'much' }", ["line 3", "services.web.limits.memory"]),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ("[services.web]\ncommand = 'a'\nlimits = { memry = '1G' }", ["line 3", "memry", "memory"]),
        ("[services.web]\ncommand = 'a'\n[services.p7]\ncommand = 'b'", ["line 3", "p7", "id"]),
        ("[services.web]\ncommand = 'a'\ngrace = 'soon'", ["line 3", "services.web.grace", "time"]),
        ("[services.web]\ncommand='a'\n[services.web.backoff]\nfirst='x'", ["line 4", "backoff.first", "time"]),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ("[services.web]\ncommand='a'\nrestart='never'", ["line 3", "restart", "never"]),
        ("[services.web]\ncommand='a'\nafter=['dbb']\n[services.db]\ncommand='b'", ["line 3", "'dbb'", "'db'"]),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ("[services.a]\ncommand='a'\nafter=['b']\n[services.b]\ncommand='b'\nafter='a'", ["line 3", "waits for"]),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ("services = 3", ["declares no service", ]),
        ("", ["declares no service"]),
        ("[services.web\ncommand", ["outlive.processes.toml:", "line 1"]),
        ("[services]\nweb = 'run'", ["line 2", "[services.web]"]),
        ("[services.'a b']\ncommand='x'", ["a b"]),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_member(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_services(text, folder="/p")
    for word in words:
        assert word in refused.value.message, refused.value.message


_TEXT = st.text(alphabet=string.printable, max_size=20)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_MEMBERS = st.sampled_from([*ServiceRequest.__struct_fields__, "comand"])


def _toml(value: object) -> str:
    """Return a value of the tests in TOML's spelling."""
    match value:
        case None:
            return '""'
        case dict():
            return "{" + ", ".join(f"{_toml(name)} = {_toml(one)}" for name, one in value.items()) + "}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return json.dumps(value).replace("\\u007f", "\\u007F").replace("\x7f", "\\u007F")
        case bool():
            return str(value).lower()
    return repr(value)


@given(st.dictionaries(_TEXT, st.dictionaries(_MEMBERS, _VALUES, max_size=4), max_size=3))
def test_whatever_a_file_holds_it_is_read_or_refused_in_words(
    tables: dict[str, dict[str, object]],
) -> None:
    lines = []
    for name, members in tables.items():
        lines += [f"[services.{json.dumps(name)}]".replace("\x7f", "\\u007F")]
        lines += [f"{member} = {_toml(value)}" for member, value in members.items()]
    with contextlib.suppress(ConfigInvalid):
        assert list(parse_services("\n".join(lines), folder="/p")) == list(tables)


@given(st.text())
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for parse in (parse_services, parse_procfile):
        with contextlib.suppress(ConfigInvalid):
            assert parse(text, folder="/p")


def test_a_procfile_is_read_as_foreman_reads_it() -> None:
    text = "# comment\n\nweb: bundle exec rails s -p $PORT\nworker-1:  ./work: now\n"
    services = parse_procfile(text, folder="/p", variables={})
    assert services == {
        "web": ServiceRequest(
            command="bundle exec rails s -p $PORT",
            folder="/p",
            environment={"PORT": "5000"},
            env_file=("/p/.env",),
        ),
        "worker-1": ServiceRequest(
            command="./work: now", folder="/p", environment={"PORT": "5100"}, env_file=("/p/.env",)
        ),
    }


@pytest.mark.parametrize(
    ("variables", "port", "ports"),
    [
        (None, "", ["5000", "5100"]),
        (None, "4000", ["4000", "4100"]),
        ({"A": "1"}, "4000", ["4000", "4100"]),
        ({"PORT": "3000"}, "4000", ["3000", "3100"]),
        ({"PORT": "none"}, "", ["5000", "5100"]),
    ],
)
def test_a_port_that_the_project_or_the_caller_names_is_the_first(
    variables: dict[str, str] | None, port: str, ports: list[str]
) -> None:
    """Foreman's and honcho's order: `.env`, the caller's environment, 5000."""
    services = parse_procfile("web: a\nwork: b", folder="/p", variables=variables, port=port)
    assert [one.environment["PORT"] for one in services.values()] == ports


@pytest.mark.parametrize("first", ["", 'version: "3"\n', "name: shop\n\n"])
def test_a_file_of_docker_compose_is_said_to_be_no_procfile(first: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"compose\.yml is no Procfile: .* Docker Compose"):
        parse_procfile(f"{first}services:\n  web:\n    image: nginx\n", folder="/p", file="compose.yml")


@pytest.mark.parametrize("text", ["", "# nothing", "web ./server", "web:", ": run", "1: x", "a: b\na: c"])
def test_a_procfile_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        parse_procfile(text, folder="/p")


_NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,10}", fullmatch=True).filter(is_name)
_COMMAND = st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(_NAME, _COMMAND.filter(lambda one: one.strip() != ""), min_size=1, max_size=9))
def test_a_procfile_gives_back_the_commands_that_it_was_made_of(commands: dict[str, str]) -> None:
    text = "\n".join(f"{name}: {command}" for name, command in commands.items())
    services = parse_procfile(text, folder="/p")
    assert {name: one.command for name, one in services.items()} == {
        name: command.strip() for name, command in commands.items()
    }
    ports = [one.environment["PORT"] for one in services.values()]
    assert len(set(ports)) == len(ports)


def test_variables_are_read_from_a_file() -> None:
    text = (
        '# c\nA=1\nexport B = two words  # note\nC=\'it # is $raw\'\nD="a\\nb\\"\\$x\\d" # note\nE=\n'
        "F=a#b\nA=2\nG= # c\nH=\t#\nI=#c\nJ='one\n  # two\nL=3' # note\nK=\"-----BEGIN\n\nx\\n-----END\"\nM=1"
    )
    assert parse_env_file(text) == {
        "A": "2",
        "B": "two words",
        "C": "it # is $raw",
        "D": 'a\nb"$x\\d',
        "E": "",
        "F": "a#b",
        "G": "",
        "H": "",
        "I": "#c",
        "J": "one\n  # two\nL=3",
        "K": "-----BEGIN\n\nx\n-----END",
        "M": "1",
    }


def test_a_quote_without_an_end_is_refused_where_it_begins() -> None:
    with pytest.raises(ValueError, match="line 4 "):
        parse_env_file("A='x\ny'\n\nB='z\nC=1\n")


@pytest.mark.parametrize("text", ["Q", "1A=b", "=b", "A='b", 'A="b', "A='b'c", "A B=c", "A=\0"])
def test_a_line_that_is_no_variable_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="line 2") as refused:
        parse_env_file(f"X=y\n{text}")
    assert text not in str(refused.value)


@given(st.text())
def test_any_file_of_variables_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert not any("\0" in value for value in parse_env_file(text).values())


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), st.text(alphabet=string.printable)
    )
)
def test_quoted_values_come_back_as_they_were(variables: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'

    text = "\n".join(f"{name}={quoted(value)}" for name, value in variables.items())
    assert parse_env_file(text) == variables
