"""Who could propose on this machine, and what each still needs: a key, a program, a server that answers.

Nothing is spent and nothing leaves the machine here: keys are looked for by name, servers on this host alone.
"""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kernel_lab.engine.errors import LabError
from kernel_lab.tui import editor
from kernel_lab.tui.text import one_line

LOCAL_SERVERS = (
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("vLLM or SGLang", "http://127.0.0.1:8000/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
)
SERVER_ANSWERS_S = 0.5
ANSWER_LIMIT_BYTES = 200_000
AGENT_COMMANDS = {
    "claude": "claude -p --permission-mode acceptEdits",
    "codex": "codex exec --full-auto -",
    "gemini": "gemini --approval-mode auto_edit",
}
"""Programs that read a task from standard input and change the file beside them without asking."""


@dataclass(frozen=True, slots=True)
class ProposerOffer:
    """One proposer. `state`: ready and by what, or what to set; `spends`: it costs money and has a cap."""

    name: str
    label: str
    state: str
    ready: bool = True
    spends: bool = False
    model: str | None = None
    url: str | None = None

    @property
    def line(self) -> str:
        return f"{self.label}: {self.state}"


def proposer_offers() -> list[ProposerOffer]:
    """Every proposer with its state; those that can start at once come first, `search` first of all."""
    offers = [
        ProposerOffer("search", "search", "turns switches and settings, needs no key"),
        _manual(),
        ProposerOffer("folder", "folder", "judges the files that you drop into the lab's inbox"),
        *_services(),
        *_programs(),
        *local_servers(),
    ]
    return sorted(offers, key=lambda offer: not offer.ready)


def _manual() -> ProposerOffer:
    try:
        program = editor.editor_command(os.environ)[0]
    except LabError as problem:
        return ProposerOffer("manual", "manual", one_line(problem, 100), ready=False)
    return ProposerOffer("manual", "manual", f"you write the candidates in {one_line(program, 30)}")


def _services() -> Iterable[ProposerOffer]:
    from kernel_lab.engine.proposers.agent.keys import OWN, has_key

    for service in ("anthropic", "openai"):
        source = has_key(service, None, None)
        if source is None:
            yield ProposerOffer(
                service, service, f"set {OWN[service][0]} to use it", ready=False, spends=True
            )
            continue
        found = f"key found in {source}, spent up to the cap below"
        yield ProposerOffer(service, service, found, spends=True)
        yield ProposerOffer(f"{service}+search", f"{service} and search", found, spends=True)


def _programs() -> Iterable[ProposerOffer]:
    for program, command in AGENT_COMMANDS.items():
        if shutil.which(program):
            yield ProposerOffer(
                f"command:{command}", program, "found on the PATH, runs as you have set it up"
            )


def local_servers(ask: Callable[[str], str | None] | None = None) -> list[ProposerOffer]:
    """Servers of this machine that speak the OpenAI protocol, each with the first model that it names."""
    with ThreadPoolExecutor(len(LOCAL_SERVERS)) as threads:
        models = list(threads.map(ask or first_model, [url for _, url in LOCAL_SERVERS]))
    return [
        ProposerOffer(
            "openai", name, f"answers here, model {one_line(model, 40)}, no key", model=model, url=url
        )
        for (name, url), model in zip(LOCAL_SERVERS, models, strict=True)
        if model
    ]


def first_model(url: str) -> str | None:
    """The first model that a server names; None if none answers in time, or in another language."""
    try:
        # Whatever proxy is set: these addresses are this machine's own.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/models", timeout=SERVER_ANSWERS_S) as answer:
            found = json.loads(answer.read(ANSWER_LIMIT_BYTES))
        name = found["data"][0]["id"]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return name if isinstance(name, str) and 0 < len(name) <= 200 and name.isprintable() else None
