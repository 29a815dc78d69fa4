"""Of the standing instructions that a later turn should obey, nearly all are in its prompt, accepted or not."""

from typing import Final

from tests.scenario.agents.agent_workspace import AgentWorkspace, say
from tests.scenario.agents.test_memory import segments

MIN_SHARE: Final = 0.85
# What a person says in passing, and the part of it that later answers should obey.
SAID: Final = [
    ("The trip is in May. From now on give me prices in euros.", "prices in euros"),
    ("Thanks, that helped! Please always show the command before you explain it.", "show the command before"),
    ("I read this on my phone, so keep your answers under five lines.", "under five lines"),
    ("Never deploy on a Friday. The rest of the week is fine.", "deploy on a Friday"),
    ("I am allergic to nuts. Don't ever suggest a recipe with almonds.", "recipe with almonds"),
    ("My name is Katherine but call me Kit.", "call me Kit"),
    ("When I ask for a summary, start with the decision.", "start with the decision"),
    ("Whenever you quote a law, please add the paragraph.", "add the paragraph"),
    ("In future, write dates as 2026-11-18 in your answers.", "write dates as"),
    ("Use British spelling in all your replies.", "British spelling"),
    ("Going forward, ask me before you book anything.", "ask me before you book"),
    ("The build is slow. Make sure to run the linter before each commit.", "run the linter"),
    ("Please do not use emojis, they break our mail system.", "use emojis"),
    ("Every time I paste a log, tell me the first error only.", "the first error only"),
    ("Remember to leave out my surname when you write to customers.", "leave out my surname"),
    ("Stop adding a closing paragraph to everything.", "adding a closing paragraph"),
    ("By default answer in German unless I write in English, please.", "answer in German"),
    ("If I mention the client, refer to them only as Northwind.", "only as Northwind"),
    ("Avoid jargon, my readers are twelve.", "Avoid jargon"),
    ("You must never send anything without my approval.", "without my approval"),
    ("資料の件は了解です。今後は必ず箇条書きで答えてください。", "箇条書きで答えて"),
    ("私のことは「たけ」と呼んでください。", "と呼んで"),
    ("これから価格は税込みで書いてください。", "税込みで書いて"),
    ("絵文字は使わないでください。", "絵文字は使わない"),
    ("コードを貼ったときは、まず危ない点を指摘してください。", "危ない点を指摘"),
    ("毎回、出典のリンクを付けてほしいです。", "出典のリンク"),
    ("返事は三行以内でお願いします。", "三行以内"),
    ("金曜は絶対にリリースしないでください。", "金曜は絶対に"),
    ("いつも結論から先に書いてください。", "結論から先に"),
    ("説明は中学生にもわかる言葉でお願いします。", "中学生にもわかる"),
    ("店を探すときは、そばの店を避けてください。", "そばの店を避けて"),
    ("二度と私の住所を書かないで。", "私の住所を書かない"),
    ("決して勝手に予約しないでください。確認してからにしてください。", "勝手に予約しない"),
    ("日付は常に西暦で書くようにしてください。", "西暦で書く"),
    ("質問するときは一つずつにしてください。", "一つずつに"),
    ("くれぐれも社外の人に送らないようにお願いします。", "社外の人に送らない"),
    ("回答は英語と日本語の両方で書いてください。", "英語と日本語の両方"),
    ("私が疲れたと言った場合は、短く答えてください。", "短く答えて"),
    ("これからは敬語なしで話して。", "敬語なしで話して"),
    ("数字は必ず表にしてください。", "必ず表に"),
]
QUESTIONS: Final = ("How high is the tower of the old church?", "明日の天気を教えて")


async def test_standing_instructions_are_in_the_prompt_of_later_turns(workspace: AgentWorkspace) -> None:
    workspace.agent(say("I see."), memory={})
    async with workspace.open() as runtime:
        for text, _ in SAID:
            await runtime.run_to_end(text, created_by="ada")
        for question in QUESTIONS:
            prompt = await segments(runtime, await runtime.run_to_end(question, created_by="ada"))
            missing = [text for text, part in SAID if part not in prompt["requests"]]
            assert len(missing) <= (1 - MIN_SHARE) * len(SAID), missing
