"""A saved model as source code of another library: its text, its weights, and a check that both agree."""
