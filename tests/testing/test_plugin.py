"""The pytest plugin: fixtures for those who use them, and nothing for others."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    pytester.makeconftest("pytest_plugins = ['pytest_trio_acp']\n")
    return pytester


def test_the_fixtures_are_a_pair_a_scripted_agent_and_a_scripted_client(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import trio
        from trio_acp import connect_acp
        from trio_acp.agent import AgentApp

        async def test_pair(acp_memory_pair):
            near, far = acp_memory_pair
            await near.send_all(b"x")
            assert await far.receive_some() == b"x"

        async def test_host(scripted_agent, nursery):
            async def script():
                await scripted_agent.introduce()
                await scripted_agent.expect_close()
            nursery.start_soon(script)
            agent = await connect_acp(nursery, scripted_agent.far_end)
            await agent.aclose()

        async def test_agent(scripted_client, nursery):
            app = AgentApp("a", "1")
            @app.on_prompt
            async def prompt(ctx): pass

            nursery.start_soon(app.serve, scripted_client.far_end)
            await scripted_client.initialize()
            assert await scripted_client.prompt(await scripted_client.new_session()) == "end_turn"
        """
    )
    suite.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_a_mistake_of_the_program_under_test_fails_its_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        async def test_host(scripted_agent):
            await scripted_agent.far_end.send_all(b'{"jsonrpc":"2.0","id":1,"method":"session/new"}\\n')
            await scripted_agent.introduce()
        """
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*IllegalConversation: W4: the client's message 0*"])


def test_the_plugin_alone_does_not_import_the_library() -> None:
    code = "import sys, pytest_trio_acp; assert not {'trio', 'trio_acp', 'hypothesis'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_library_does_not_import_its_test_kit_and_the_kit_does_not_need_hypothesis() -> None:
    code = (
        "import sys, trio_acp, trio_acp.agent, trio_acp.client, trio_acp.demo\n"
        "assert 'trio_acp.testing' not in sys.modules\n"
        "import trio_acp.testing\n"
        "assert 'hypothesis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
