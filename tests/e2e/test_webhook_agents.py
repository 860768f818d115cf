"""An agent behind an address: it answers at once, or later with the token of its run, or not at all."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import httpx2

from duetime.kinds.prompts.agents.webhook import SIGNATURE
from tests.support.agency import SECRET, Agency
from tests.support.mcp import unique
from tests.support.receiver import Behaviour, Receiver
from tests.support.settings import remote_agent
from tests.support.woken import installation, result_of
from tests.support.wordings import NOT_FINISHED


def test_it_answers_at_once(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        task = client.knows("schedule", prompt="Look.", at="now", agent="remote", deliver_to="hooks")["id"]
    run = there.ended(task)
    assert run.status == "completed" and result_of(run) == {"text": "Did: Look.", "agent": "remote"}
    [message] = there.arrived(owner, "hooks")
    assert message["message"] == "Did: Look."
    agent_request = there.agent_request(owner)
    assert (agent_request["run"], agent_request["task"], agent_request["access"]["url"]) == (
        run.id,
        task,
        there.world.served.url,
    )


def test_it_is_called_by_us(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        there.ended(client.knows("schedule", prompt="Look.", at="now", agent="remote")["id"])
    request = there.request(owner)
    stamp, digest = (part.partition("=")[2] for part in request.headers[SIGNATURE.lower()].split(","))
    signed = stamp.encode() + b"." + request.body
    assert hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest() == digest


def test_it_answers_later_with_its_token_alone(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        tasks = [
            client.knows("schedule", prompt=f"Do {each} later.", at="now", agent="remote", deliver_to="hooks")["id"]
            for each in ("this", "that")
        ]
        runs = [there.run_of(task, "waiting") for task in tasks]
        agent_requests = [there.agent_request(owner, number) for number in (1, 2)]
        tokens = {agent_request["run"]: agent_request["access"]["token"] for agent_request in agent_requests}
        mine, other = (run.id for run in runs)
        assert client.call("take_prompt").text == "Nothing is due.", "it is in the hands of the webhook"
        assert client.call("finish_prompt", run_id=mine, result="x").text == f"Run {mine} is not yours to finish."
        who = there.api(tokens[mine], "/whoami").json()
        assert (who["owner"], who["depth"], who["operator"]) == (owner, 1, False)
        with there.agent(token=tokens[mine]) as hook:
            assert hook.call("finish_prompt", run_id=other, result="x").text == f"Run {other} is not yours to finish."
            hook.knows("schedule", prompt="look again", at="2031-02-10 3:00 PM")
            done = hook.knows("finish_prompt", run_id=mine, result="Done at last.")
            assert (done["id"], done["status"]) == (tasks[0], "completed")
        assert there.api(tokens[mine], "/whoami").status_code == 401, "its run is over"
        assert there.api(tokens[other], "/whoami").status_code == 200
        assert there.api(there.run_token(runs[1], fence=runs[1].fence - 1), "/whoami").status_code == 401
        with there.agent(token=tokens[other]) as hook:
            assert hook.knows("schedule_list", status="all")["total"] == 3
            assert hook.knows("finish_prompt", run_id=other, error="I could not.")["status"] == "failed"
    assert there.prompts(owner)["look again"].definition.depth == 1
    assert [there.ended(task).status for task in tasks] == ["completed", "failed"]
    told = {message["message"] for message in there.arrived(owner, "hooks", 2)}
    assert told == {"Done at last.", "I could not."}


def test_it_is_done_before_it_said_that_it_will_be(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        task = client.knows("schedule", prompt="Do it later, in no hurry.", at="now", agent="remote")["id"]
    agent_request = there.agent_request(owner)
    with there.agent(token=agent_request["access"]["token"]) as hook:
        assert hook.knows("schedule_list", status="all")["total"] == 1
        assert hook.knows("finish_prompt", run_id=agent_request["run"], result="Quick.")["status"] == "completed"
    assert there.ended(task).result == '"Quick."'


def test_it_answers_later_over_plain_http_as_it_would_at_once(shared_agency: Agency) -> None:
    """Even before it is on record that it will: `in no hurry` means that it takes a while to say so."""
    there, owner = shared_agency, unique("owner")
    answer = {"text": "Done at last.", "outcome": {"ok": True}, "usage": {"input_tokens": 70, "output_tokens": 30}}
    with there.agent(owner) as client:
        task = client.knows("schedule", prompt="Do it later, in no hurry.", at="now", agent="remote")["id"]
    agent_request = there.agent_request(owner)
    headers = {"Authorization": f"Bearer {agent_request['access']['token']}"}
    finished = httpx2.post(agent_request["callback"]["url"], headers=headers, json=answer, timeout=20)
    assert finished.status_code == 200, finished.text
    assert result_of(there.ended(task)) == {**answer, "agent": "remote"}
    assert httpx2.post(agent_request["callback"]["url"], headers=headers, json=answer, timeout=20).status_code == 401


def test_it_is_told_the_address_that_the_operator_set(tmp_path: Path) -> None:
    """Behind a proxy, or on another machine, the address that the server listens on is of no use."""
    answer = Behaviour(body=b"Done.")
    with Receiver(lambda request: answer) as hooks:
        agent = remote_agent(hooks.url, SECRET)
        with installation(tmp_path, f'url = "https://duetime.example.org/mcp"\n{agent}') as there:
            with there.agent("ada") as client:
                run = there.ended(client.knows("schedule", prompt="Look.", at="now", agent="remote")["id"])
            [request] = hooks.wait_for(1)
    agent_request = json.loads(request.body)
    assert run.status == "completed" and agent_request["access"]["url"] == "https://duetime.example.org/mcp"
    assert agent_request["callback"]["url"] == f"https://duetime.example.org/api/v1/runs/{run.id}/finish"


def test_a_token_of_a_run_opens_nothing_else(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        there.run_of(client.knows("schedule", prompt="Do it later.", at="now", agent="remote")["id"], "waiting")
    token = there.agent_request(owner)["access"]["token"]
    header, body, proof = token.split(".")
    assert there.api(f"{header}.{body[:-4]}AAAA.{proof}", "/whoami").status_code == 401
    assert there.api(token, "/workers").status_code == 403

    def opens_a_session(token: str) -> bool:
        page = there.world.served.url.removesuffix("/mcp") + "/login"
        return "set-cookie" in httpx2.post(page, data={"token": token}, timeout=20).headers

    assert opens_a_session(there.token(owner)) and not opens_a_session(token), "a session would outlive the run"


def test_its_time_runs_out(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        task = client.knows("schedule", prompt="Do it later.", at="now", agent="hasty", deliver_to="hooks")["id"]
        run = there.ended(task)
        token = there.agent_request(owner)["access"]["token"]
        assert there.api(token, "/whoami").status_code == 401
        [row] = client.knows("schedule_list", status="failed")["tasks"]
    assert (run.status, run.error) == ("failed", NOT_FINISHED)
    assert row["last_error"] == run.error
    [message] = there.arrived(owner, "hooks")
    assert message["title"] == "Do it later. failed"
