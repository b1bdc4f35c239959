# Liars who move branches, pull requests and the notes of the harness.
spoil() { # a commit on top of the first sprint's, with its work undone
    git checkout -q --detach feature/1-1-one
    echo 41 > one.txt
    git commit -qam spoilt
    spoilt=$(git rev-parse HEAD)
    git checkout -q "$BEADS_RALPH_BRANCH"
}
without() { # a commit on main without a file that nobody was to touch
    git checkout -q --detach main
    git rm -q keep.txt
    git commit -qm "not asked for"
    moved=$(git rev-parse HEAD)
    git checkout -q "$BEADS_RALPH_BRANCH"
}
middle() { [ "$SPRINT" = two ]; }

#=== moves-a-closed-branch sprints=3 quick=bwrap
good; commit
#--- then
good; commit
if middle; then spoil; git update-ref refs/heads/feature/1-1-one "$spoilt"; fi

#=== moves-a-closed-branch-by-a-file sprints=3
good; commit
#--- then
good; commit
if middle; then spoil; echo "$spoilt" > "$GITDIR/refs/heads/feature/1-1-one"; fi

#=== moves-a-closed-branch-in-packed-refs sprints=3
good; commit
#--- then
good; commit
if middle; then
    spoil
    git pack-refs --all
    sed -i "s#^.* refs/heads/feature/1-1-one\$#$spoilt refs/heads/feature/1-1-one#" "$GITDIR/packed-refs"
fi

#=== makes-a-closed-branch-symbolic sprints=3
good; commit
#--- then
good; commit
if middle; then
    spoil
    git branch spoilt "$spoilt"
    git symbolic-ref refs/heads/feature/1-1-one refs/heads/spoilt
fi

#=== moves-a-pull-request sprints=3 quick=bwrap
good; commit
#--- then
good; commit
if middle; then spoil; git update-ref refs/pull/1/head "$spoilt"; fi

#=== pushes-over-a-closed-branch sprints=3 quick=none
good; commit
#--- then
good; commit
if middle; then spoil; git push -q -f "$ORIGIN" "$spoilt:refs/heads/feature/1-1-one"; fi

#=== deletes-a-closed-branch-on-the-remote sprints=2
good; commit
#--- then
good; commit
git push -q "$ORIGIN" :refs/heads/feature/1-1-one

#=== deletes-a-closed-branch sprints=3
good; commit
#--- then
good; commit
if middle; then git update-ref -d refs/heads/feature/1-1-one; fi

#=== deletes-a-pull-request sprints=3
good; commit
#--- then
good; commit
if middle; then git update-ref -d refs/pull/1/head; fi

#=== moves-the-tracking-branch sprints=3
good; commit
#--- then
good; commit
if middle; then
    spoil
    git update-ref -d refs/heads/feature/1-1-one
    git update-ref refs/remotes/origin/feature/1-1-one "$spoilt"
fi

#=== tags-with-a-branch-name sprints=3
# A tag goes before a branch where git is given the short name.
good; commit
#--- then
good; commit
if middle; then spoil; git tag feature/1-1-one "$spoilt"; fi

#=== names-a-ref-like-a-branch sprints=3
good; commit
#--- then
good; commit
if middle; then spoil; git update-ref refs/feature/1-1-one "$spoilt"; fi

#=== moves-main sprints=2 quick=none
without
good; commit
git update-ref refs/heads/main "$moved"

#=== moves-main-here-and-on-the-remote sprints=2
without
good; commit
git update-ref refs/heads/main "$moved"
git push -q "$ORIGIN" "$moved:refs/heads/main"

#=== makes-main-symbolic sprints=2
without
good; commit
git branch other "$moved"
git symbolic-ref refs/heads/main refs/heads/other

#=== tags-main sprints=2
without
good; commit
git tag main "$moved"

#=== moves-the-start
# Where the work began is noted in a ref; with it moved, the branch need not hold what was there.
git checkout -q --orphan new
git rm -qf --cached keep.txt; rm -f keep.txt
good; git add --all; git commit -qm "from nowhere"
git checkout -q -B "$BEADS_RALPH_BRANCH"
git for-each-ref --format='%(refname)' refs/beads-ralph/start | while read -r ref; do
    git update-ref "$ref" HEAD
done

#=== moves-the-start-and-fails-once settings=max_retry_attempts:2
# The second attempt starts from what the first one noted.
if [ "$BEADS_RALPH_ATTEMPT" = 1 ]; then
    git checkout -q --orphan new
    git rm -qf --cached keep.txt; rm -f keep.txt
    bad; git add --all; git commit -qm "from nowhere"
    git checkout -q -B "$BEADS_RALPH_BRANCH"
    git for-each-ref --format='%(refname)' refs/beads-ralph/start | while read -r ref; do
        git update-ref "$ref" HEAD
    done
else
    good; commit
fi

#=== makes-the-next-branch-before-its-turn sprints=2
good; commit
git checkout -q --detach
echo 41 > one.txt
git commit -qam "undone"
git branch feature/1-2-two
git checkout -q "$BEADS_RALPH_BRANCH"

#=== makes-the-next-branch-with-its-own-check sprints=2
good; commit
git checkout -q --detach
echo 'exit 0' > check.sh
git commit -qam "a check that passes"
git branch feature/1-2-two
git checkout -q "$BEADS_RALPH_BRANCH"
#--- then
bad; commit

#=== puts-the-next-branch-on-the-remote sprints=2
good; commit
git checkout -q --detach
echo 41 > one.txt; echo 42 > two.txt; git add --all
git commit -qm "undone"
git push -q "$ORIGIN" HEAD:refs/heads/feature/1-2-two
git update-ref refs/remotes/origin/feature/1-2-two HEAD
git checkout -q "$BEADS_RALPH_BRANCH"

#=== leaves-the-head-on-good-work
# The branch has the wrong work; what is checked out is a commit with the right one.
right=$(made good)
bad; commit
git checkout -q --detach "$right"

#=== switches-the-main-checkout sprints=2
good; commit
git -C "$ROOT" checkout -q -B elsewhere
sed -i 's/`sh check.sh two`/`true`/' "$ROOT/plan.md"
git -C "$ROOT" commit -qam "another plan"
#--- then
bad; commit

#=== swaps-the-heads-of-worktrees sprints=2
# The first bead's worktree is said to stand on the branch of the second one.
good; commit
#--- then
bad; commit
printf 'ref: refs/heads/feature/1-1-one\n' > "$(git rev-parse --git-dir)/HEAD"

#=== pushes-its-own-branch-ahead
# Bad work is on the remote before the right one is proven.
bad; commit
git push -q "$ORIGIN" "HEAD:refs/heads/$BEADS_RALPH_BRANCH"
git reset -q --hard HEAD~1
good; commit
