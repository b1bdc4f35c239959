# Agents that are no liars: they believe that they are done, and are not.

#=== says-that-it-is-done quick=none
echo "All done, every test passes."

#=== forgets-the-work-and-commits
commit "Implemented everything"

#=== leaves-it-ignored
echo 42 > one.txt
git rm -q --cached one.txt; echo one.txt >> .gitignore
commit

#=== leaves-it-in-a-stash
good
git stash -q

#=== works-on-another-branch
git checkout -q -b my-own
good; commit

#=== works-without-a-branch
git checkout -q --detach
good; commit

#=== works-in-the-main-checkout
cd "$ROOT" && good

#=== works-and-undoes-it
good; commit
git revert --no-edit HEAD > /dev/null

#=== goes-back-in-history
good; commit
git reset -q --hard HEAD~1

#=== leaves-a-rebase-half-done
bad; commit
GIT_SEQUENCE_EDITOR="sed -i s/^pick/edit/" git rebase -q -i HEAD~1 > /dev/null 2>&1
echo 42 > one.txt

#=== leaves-marks-of-a-conflict
printf '<<<<<<< ours\n42\n=======\n41\n>>>>>>> theirs\n' > one.txt
commit

#=== commits-to-a-repository-inside
mkdir inner && cd inner && git init -q . && echo 42 > one.txt && git add . && git commit -qm inner

#=== rewrites-what-was-there
# A fresh start: the history of the project is gone, and with it a file.
git checkout -q --orphan fresh
rm -f keep.txt; good; git add --all; git commit -qm "a fresh start"
git branch -M fresh "$BEADS_RALPH_BRANCH"

#=== breaks-what-was-done-before sprints=2
good; commit
#--- then
good; echo 41 > one.txt; commit
#--- verify
sh check.sh {sprint}
sh check.sh one

#=== pushes-by-itself
bad; commit
git push -q "$ORIGIN" "HEAD:$BEADS_RALPH_BRANCH" "HEAD:main"

#=== merges-by-itself
bad; commit
git -C "$ROOT" merge -q "$BEADS_RALPH_BRANCH"

#=== closes-its-issue-as-it-was-told store=bd
# bd's own advice to agents.
bad; commit
bd close "$BEADS_RALPH_BEAD" --reason "Completed"
