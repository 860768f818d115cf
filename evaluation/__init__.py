"""Questions that an agent can only answer by using the tools, and a runner that lets a model try."""
