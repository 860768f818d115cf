"""How a run is carried out: jobs call registered functions, prompts wake agents, notifications reach people."""
