"""Those who wait.

waiting     until a timer has ended
task_lines  for service tasks, one after the other
"""
