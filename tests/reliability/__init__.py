"""What reliability is measured with: conversations, faults and long runs, behind commands of make."""
