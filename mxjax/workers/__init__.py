"""Worker processes and threads: where they come from, what they are told, how arrays come back."""
