"""Agents as a lab's settings ask for them; a wrong setting, no key or no agreement to spend is one line."""

from __future__ import annotations

import os
from pathlib import Path

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.lab_config import LabConfig
from kernel_lab.engine.ledger.views import Spending
from kernel_lab.engine.proposers.agent.budget import forecast
from kernel_lab.engine.proposers.agent.keys import HOSTS, OWN, SERVICE, find_key, has_key, variables
from kernel_lab.engine.proposers.agent.prices import FREE, Price, own_prices, price_of
from kernel_lab.engine.proposers.agent.settings import AgentSettings, is_here, is_loopback
from kernel_lab.engine.proposers.base import Proposer

SERVICES = ("anthropic", "openai")
DEFAULTS = {
    "anthropic": ("claude-opus-5-5", "https://api.anthropic.com"),
    "openai": ("gpt-6.2-sol", "https://api.openai.com/v1"),
}
"""Provider to the newest model for long work on code at a moderate price, and its own service."""


def service_of(proposer: str) -> str | None:
    """`anthropic` or `openai` if the proposer asks a model there, else None."""
    kind = proposer.partition(":")[0].removesuffix("+search")
    return kind if kind in SERVICES else None


def needed_variables(config: LabConfig) -> tuple[str, ...]:
    """Secrets that the engine of this lab needs, by the names of their variables."""
    settings = AgentSettings.of(config)
    service = service_of(config.proposer)
    if service is not None:
        return variables(service, settings.url, settings.key_variable)
    return settings.passed if config.proposer.partition(":")[0] == "command" else ()


def model_of(service: str, settings: AgentSettings) -> str:
    """The model that is asked. Raises UsageError where another service's models are not known."""
    if settings.model is not None:
        return settings.model
    if settings.url is not None:
        raise UsageError(f"which model of {settings.url}? name it with --agent-model")
    return DEFAULTS[service][0]


def price_for(service: str, settings: AgentSettings) -> Price | None:
    """What its tokens cost; None if nobody knows."""
    known = price_of(model_of(service, settings))
    if known is not None:
        return known
    return (
        FREE
        if settings.url is not None and is_loopback(settings.url) and settings.key_variable is None
        else None
    )


def check_agent(proposer: str, config: LabConfig, *, key_at_hand: bool = True) -> None:
    """Raise UsageError unless this proposer may start as it is set: key, price and agreement to spend."""
    kind, _, detail = proposer.partition(":")
    settings = AgentSettings.of(config)
    service = service_of(proposer)
    if service is None:
        if kind == "command" and not detail.strip():
            raise UsageError("which program? say `--proposer 'command:PROGRAM ARGUMENTS'`")
        return
    if detail:
        raise UsageError(f"proposer {kind} takes nothing behind a colon; name a model with --agent-model")
    known = {name for names in (*OWN.values(), *HOSTS.values()) for name in names}
    foreign = known - set(variables(service, settings.url, None))
    if settings.url is not None and not is_here(settings.url) and settings.key_variable in foreign:
        raise UsageError(
            f"{settings.key_variable} is another service's key: "
            f"give the one for {settings.url} in a variable of another name"
        )
    model = model_of(service, settings)
    source = has_key(service, settings.url, settings.key_variable) if key_at_hand else "a key"
    if source is None and (settings.url is None or settings.key_variable is not None):
        if settings.key_variable is not None:
            raise UsageError(f"{settings.key_variable} is not set: it is to hold the key for {service}")
        raise UsageError(
            f"no key for {service}: set {OWN[service][0]}, "
            f"or store one with `keyring set {SERVICE} {service}`"
        )
    if source is not None and not (settings.usd or settings.tokens or settings.uncapped):
        raise UsageError(
            f"proposer {kind} would spend the key in {source}: give a cap with --usd or --tokens, "
            "or agree to spend without one with --uncapped"
        )
    if settings.usd is not None and price_for(service, settings) is None:
        raise UsageError(
            f"the price of {model} is unknown: cap it with --tokens, or add it to {own_prices()}"
        )


def outlook(proposer: str, config: LabConfig, spent: Spending | None = None) -> str:
    """One line for a person before the start: what it will cost and to whom it goes. Empty for a program."""
    service = service_of(proposer)
    if service is None:
        return ""
    settings = AgentSettings.of(config)
    model, price = model_of(service, settings), price_for(service, settings)
    told = forecast(model, price, settings, spent or Spending(), config.budget)
    return f"{told.line}; sent to {settings.url or DEFAULTS[service][1]}"


def make_agent(kind: str, detail: str, config: LabConfig, lab: Path) -> Proposer:
    """The proposer. Its key leaves the environment of this process."""
    proposer = f"{kind}:{detail}" if detail else kind
    check_agent(proposer, config)
    settings = AgentSettings.of(config)
    service = service_of(kind)
    if service is None:
        from kernel_lab.engine.proposers.agent.command import Command

        passed = {name: os.environ[name] for name in settings.passed if name in os.environ}
        return Command(detail, settings, lab / "agent", passed)
    from kernel_lab.engine.proposers.agent.agent import Agent
    from kernel_lab.engine.proposers.agent.redact import Redactor

    key = find_key(service, settings.url, settings.key_variable)
    model, url = model_of(service, settings), settings.url or DEFAULTS[service][1]
    redactor = Redactor([key.value] if key else [])
    price = price_for(service, settings)
    if service == "anthropic":
        from kernel_lab.engine.proposers.agent.anthropic_provider import Anthropic

        anthropic = Anthropic(
            key.value if key else "none",
            model=model,
            url=url,
            effort=settings.effort,
            bearer=bool(key and key.bearer),
        )
        agent = Agent(anthropic, settings, price, redactor)
    else:
        from kernel_lab.engine.proposers.agent.openai_provider import OpenAI

        openai = OpenAI(key.value if key else None, model=model, url=url, effort=settings.effort)
        agent = Agent(openai, settings, price, redactor)
    if not kind.endswith("+search"):
        return agent
    from kernel_lab.engine.proposers.agent.mixed import Mixed

    return Mixed(agent)
